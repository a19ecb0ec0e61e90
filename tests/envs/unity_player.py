"""A scripted Unity player: an executable that is started like a build and speaks ML-Agents' protocol over real gRPC.

It has an encoder of its own, from the numbers of the real protocol: what Shoal's table gets wrong, it does not get wrong too.
Its agents are shown a number, as one-hot, and earn 1 for naming it, `--length` times an episode. With `--duel` they also lose what
their rivals earn on average: agents of other behaviours.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import struct
import sys
import time
import uuid
from typing import Any

import grpc

PARAMETERS = uuid.UUID("534c891e-810f-11ea-a9d0-822485860400").bytes_le
STATISTICS = uuid.UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520").bytes_le

# ---------------------------------------------------------------- the wire


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def part(field: int, payload: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def whole(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number) if number else b""


def real(field: int, number: float) -> bytes:
    return varint(field << 3 | 5) + struct.pack("<f", number) if number else b""


def packed_ints(field: int, numbers: list[int]) -> bytes:
    return part(field, b"".join(map(varint, numbers))) if numbers else b""


def floats(field: int, numbers: list[float]) -> bytes:
    return part(field, struct.pack(f"<{len(numbers)}f", *numbers))


def read(data: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            value: Any = number()
        elif key & 7 == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            size = number()
            value, at = data[at : at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def inside(data: bytes, *path: int) -> bytes:
    for field in path:
        data = read(data).get(field, [b""])[-1]
    return data


# ---------------------------------------------------------------- the game


def png(pixels: list[list[tuple[int, int, int]]]) -> bytes:
    from PIL import Image

    image = Image.new("RGB", (len(pixels[0]), len(pixels)))
    image.putdata([pixel for row in pixels for pixel in row])
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


class Agent:
    def __init__(self, game: Game, behaviour: str, group: int) -> None:
        self.game, self.behaviour, self.group = game, behaviour, group
        self.begin()

    def begin(self) -> None:
        self.id = self.game.next_id()
        self.restart()

    def restart(self) -> None:
        self.time, self.waits = 0, 0
        self.reward = 0.0
        self.draw()

    def draw(self) -> None:
        self.cue = self.game.random.randrange(self.game.options.numbers)

    def act(self, right: float, theirs: float) -> list[bytes]:
        """Its messages of this step: how right it and its rivals were."""
        options = self.game.options
        self.game.score += right
        self.time += 1
        self.draw()
        reward = right - theirs * options.duel + self.game.parameters.get("bonus", 0.0)
        if self.time < options.length + 2 * (options.uneven and self is self.game.agents[0]):
            return [self.info(reward)]
        ended = self.info(reward, done=True)
        if options.stale:
            return [self.again(), ended, *self.next_life()]
        return [ended, *self.next_life()]

    def again(self) -> bytes:
        return self.info(0.0)

    def next_life(self) -> list[bytes]:
        self.begin()
        if self.game.options.gap:
            self.waits = self.game.options.gap
            return []
        return [self.info(9.0)]  # earned by nobody

    def right(self, action: dict[int, list[Any]]) -> float:
        options = self.game.options
        numbers = inside_floats(action.get(6, [b""])[-1])
        picked = list(action.get(7, [b""])[-1])
        if options.actions == "continuous":
            return 1.0 - min(1.0, abs(numbers[0] - (2 * self.cue / (options.numbers - 1) - 1)))
        if options.actions == "hybrid":
            return 0.5 * (picked[0] == self.cue) + 0.5 * (abs(numbers[0] - 1.0) < 1e-6)
        if options.actions == "branches":
            return 0.5 * (picked[0] == self.cue) + 0.5 * (picked[1] == 1)
        return float(picked[0] == self.cue)

    def info(self, reward: float, *, done: bool = False) -> bytes:
        options = self.game.options
        out = b"" if self.group and options.grouped_reward else real(7, reward)
        out += whole(8, done) + whole(9, done and options.cut) + whole(10, self.id)
        if options.masked:
            out += part(11, bytes(int(i != self.cue) for i in range(options.numbers)))
        for each in self.observations():
            out += part(13, each)
        if self.group:
            out += whole(14, self.group) + (real(15, reward) if options.grouped_reward else b"")
        return out

    def observations(self) -> list[bytes]:
        options = self.game.options
        seen = [float(i == self.cue) for i in range(options.numbers)]
        if options.masked:
            seen = [0.0] * options.numbers
        seen += [0.0] * (options.floats - len(seen))
        if options.fault == "nan" and self.game.messages == options.at:
            seen[0] = float("nan")
        found = [packed_ints(1, [len(seen)]) + part(4, floats(1, seen)) + part(8, b"vector")]
        if options.images:
            low, high = [[(self.cue, 10, 20)] * 8] * 6, [[(40, 50, 60)] * 8] * 6
            shape = [4, 6, 8] if options.images == "first" else [6, 8, 4]
            mapping = packed_ints(5, [0, 1, 1, 2, 3, -1])
            found.append(
                packed_ints(1, shape) + whole(2, 1) + part(3, png(low) + png(high)) + mapping + part(8, b"camera")
            )
        return found


def inside_floats(data: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(data) // 4}f", data))


class Game:
    def __init__(self, options: argparse.Namespace, seed: int, areas: int) -> None:
        self.options, self.random, self.parameters = options, random.Random(seed), {}
        self.last, self.messages, self.score = 0, 0, 0.0
        self.said: set[str] = set()
        self.agents = [
            Agent(self, name, group)
            for area in range(areas)
            for kind, name in enumerate(options.behaviours)
            for i in range(options.agents)
            for group in [area * 10 + kind + 1 if options.groups else 0]
        ]
        self.waiting: list[Agent] = []
        if options.late:
            self.waiting = [agent for agent in self.agents if agent.behaviour == options.behaviours[-1]]
            self.agents = [agent for agent in self.agents if agent not in self.waiting]

    def next_id(self) -> int:
        self.last += 1
        return self.last

    def reset(self) -> dict[str, list[bytes]]:
        """As in Unity, agents keep their numbers."""
        for agent in self.agents:
            agent.restart()
        return self.lists([(agent, [agent.info(0.0)]) for agent in self.agents])

    def step(self, actions: dict[str, list[bytes]]) -> dict[str, list[bytes]]:
        if self.waiting and self.messages >= self.options.late:
            self.agents += self.waiting
            self.lately, self.waiting = self.waiting, []
            return self.lists([(agent, [agent.info(0.0)]) for agent in self.lately]) | self.on(actions, self.lately)
        return self.on(actions, [])

    def on(self, actions: dict[str, list[bytes]], new: list[Agent]) -> dict[str, list[bytes]]:
        told = []
        acting = [agent for agent in self.agents if agent not in new and not agent.waits]
        right = {agent: agent.right(read(self.due[agent.behaviour, agent.id](actions))) for agent in acting}
        for agent in self.agents:
            if agent in new:
                continue
            if agent.waits:
                agent.waits -= 1
                told.append((agent, [] if agent.waits else [agent.info(9.0)]))
            else:
                theirs = [right[other] for other in acting if other.behaviour != agent.behaviour]
                told.append((agent, agent.act(right[agent], sum(theirs) / len(theirs) if theirs else 0.0)))
        return self.lists(told)

    def lists(self, told: list[tuple[Agent, list[bytes]]]) -> dict[str, list[bytes]]:
        """Behaviour -> messages; and remember whose action is which: those who are not done, in their order."""
        lists: dict[str, list[bytes]] = {}
        self.due = getattr(self, "due", {})
        for agent, infos in told:
            for info in infos:
                mine = lists.setdefault(agent.behaviour, [])
                found = read(info)
                if not found.get(8):
                    place = sum(not read(each).get(8) for each in mine)
                    name = agent.behaviour
                    self.due[name, found[10][0]] = lambda actions, name=name, place=place: actions[name][place]
                mine.append(info)
        return lists

    def message(self, lists: dict[str, list[bytes]]) -> bytes:
        options = self.options
        self.messages += 1
        output = b"".join(
            part(2, part(1, name.encode()) + part(2, b"".join(part(1, info) for info in infos)))
            for name, infos in lists.items()
        )
        statistic = struct.pack("<i", 5) + b"score" + struct.pack("<fi", self.score, 1)
        output += part(3, STATISTICS + struct.pack("<i", len(statistic)) + statistic)
        new = [name for name in lists if name not in self.said]
        self.said.update(new)
        spec = {
            "discrete": whole(2, 1) + packed_ints(3, [options.numbers]), "continuous": whole(1, 1),
            "hybrid": whole(1, 1) + whole(2, 1) + packed_ints(3, [options.numbers]),
            "branches": whole(2, 2) + packed_ints(3, [options.numbers, 2]),
        }[options.actions]  # fmt: skip
        behaviours = b"".join(part(5, part(7, name.encode()) + whole(8, 1) + part(9, spec)) for name in new)
        return part(1, whole(1, 200)) + part(2, part(1, output) + (part(2, behaviours) if behaviours else b""))


def misbehave(options: argparse.Namespace, message: bytes) -> bytes:
    if options.fault == "crash":
        print("Segmentation fault in Physics", flush=True)
        os._exit(3)
    if options.fault == "hang":
        time.sleep(600)
    if options.fault == "print":
        for _ in range(100):
            print("x" * 10_000, flush=True)
    if options.fault == "leak":
        options.held = [*getattr(options, "held", []), b"x" * 30_000_000]
    if options.fault == "closed":
        return part(1, whole(1, 400))
    return b"\xff\xff\xff" if options.fault == "garbage" else message


def read_parameters(data: bytes) -> dict[str, float]:
    found, at = {}, 0
    while at < len(data):
        size = struct.unpack_from("<i", data, at + 16)[0]
        payload = data[at + 20 : at + 20 + size]
        if data[at : at + 16] == PARAMETERS:
            length = struct.unpack_from("<i", payload)[0]
            found[payload[4 : 4 + length].decode()] = struct.unpack_from("<f", payload, 8 + length)[0]
        at += 20 + size
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mlagents-port", type=int, required=True)
    parser.add_argument("-nographics", action="store_true")
    parser.add_argument("-batchmode", action="store_true")
    parser.add_argument("-logFile")
    parser.add_argument("--behaviours", nargs="+", default=["Guess"])
    for name, default in {"agents": 1, "numbers": 3, "length": 5, "floats": 0, "gap": 0, "late": 0, "at": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("cut", "stale", "masked", "groups", "grouped-reward", "ignore-areas", "uneven", "duel"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--images", default="")
    parser.add_argument("--actions", default="discrete")
    parser.add_argument("--fault", default="")
    parser.add_argument("--once", default="", help="a file: the fault happens only while it is missing, and makes it")
    parser.add_argument("--version", default="1.5.0")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    print("Scripted player", options.fault, os.environ.get("no_proxy"), os.environ.get("DISPLAY"), flush=True)
    print("on", os.uname().nodename, flush=True)
    if options.fault == "mute":
        time.sleep(600)
    channel = grpc.insecure_channel(f"localhost:{options.mlagents_port}", [("grpc.max_receive_message_length", -1)])
    exchange = channel.unary_unary("/communicator_objects.UnityToExternalProto/Exchange")
    hello = part(1, b"scripted") + part(2, options.version.encode()) + part(7, b"3.0.0") + part(8, whole(1, 1))
    greeting = read(inside(exchange(part(1, whole(1, 200)) + part(2, part(2, hello)), wait_for_ready=True), 3, 2))
    areas = 1 if options.ignore_areas else greeting.get(5, [1])[0]
    game = Game(options, greeting.get(1, [0])[0], areas)
    reply = exchange(part(1, whole(1, 200)))
    while True:
        command = read(inside(reply, 3, 1))
        game.parameters |= read_parameters(command.get(5, [b""])[-1])
        kind = command.get(4, [0])[0]
        if kind == 2:
            return
        entries = [read(entry) for entry in command.get(1, [])]
        actions = {entry[1][0].decode(): read(entry[2][0]).get(1, []) for entry in entries}
        message = game.message(game.reset() if kind == 1 else game.step(actions))
        if (
            options.fault
            and options.at
            and game.messages >= options.at
            and not os.path.exists(options.once or os.devnull + "?")
        ):
            if options.once:
                open(options.once, "w").close()
            message = misbehave(options, message)
        reply = exchange(message)


if __name__ == "__main__":
    try:
        main()
    except grpc.RpcError:
        sys.exit(0)  # the trainer is no more
