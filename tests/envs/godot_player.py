"""A scripted Godot game: an executable that is started like an exported game and speaks Godot RL Agents' protocol over TCP.

Its agents are shown a number, as one-hot, and earn 1 for naming it, `--length` times an episode. What comes with an end is the
first observation of the next episode.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import struct
import time
from typing import Any


def read(link: socket.socket) -> dict[str, Any]:
    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = link.recv(size - len(data))
            if not more:
                raise SystemExit
            data += more
        return data

    return json.loads(exactly(struct.unpack("<I", exactly(4))[0]))


def send(link: socket.socket, message: dict[str, Any]) -> None:
    text = json.dumps(message, ensure_ascii=False).encode()
    link.sendall(struct.pack("<I", len(text)))
    for at in range(0, len(text), 50):  # in pieces, as networks do
        link.sendall(text[at : at + 50])


class Game:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.random, self.steps = options, random.Random(options.env_seed), 0
        self.times, self.cues = [0] * options.agents, [0] * options.agents
        self.draw(range(options.agents))

    def draw(self, who: Any) -> None:
        for i in who:
            self.cues[i] = self.random.randrange(3)

    def seen(self) -> list[dict[str, Any]]:
        found = []
        for cue in self.cues:
            one = {"obs": [float(i == cue) for i in range(3)]}
            if self.options.images:
                one["camera_2d"] = bytes([cue, 200] * 6).hex()
            found.append(one)
        return found

    def right(self, action: dict[str, Any], cue: int) -> float:
        kind = self.options.actions
        if kind == "continuous":
            return 1.0 - min(1.0, abs(action["move"][1] - (cue - 1)))
        if kind == "mixed":
            return 0.5 * (action["name"] == cue) + 0.5 * (action["move"] == [1.0, -1.0])
        return float(action["name"] == cue)

    def step(self, actions: list[dict[str, Any]]) -> dict[str, Any]:
        self.steps += 1
        rewards = [self.right(action, cue) for action, cue in zip(actions, self.cues, strict=True)]
        self.times = [time + 1 for time in self.times]
        done = [time == self.options.length for time in self.times]
        self.times = [0 if end else time for end, time in zip(done, self.times, strict=True)]
        self.draw(range(self.options.agents))
        info = [{"steps": self.steps, "is_äöü": "text"} for _ in actions]
        return {"type": "step", "obs": self.seen(), "reward": rewards, "done": done, "info": info}

    def info(self) -> dict[str, Any]:
        options = self.options
        sees: dict[str, Any] = {"obs": {"size": [3], "space": "box"}}
        if options.images:
            sees["camera_2d"] = {"size": [2, 3, 2], "space": "box"}
        name, move = {"size": 3, "action_type": "discrete"}, {"size": 2, "action_type": "continuous"}
        acts = {"discrete": {"name": name}, "continuous": {"move": move}, "mixed": {"move": move, "name": name}}
        told: dict[str, Any] = {"type": "env_info", "n_agents": options.agents}
        if options.old:
            return told | {"observation_space": sees, "action_space": acts[options.actions]}
        spaces = {
            "observation_space": [sees] * options.agents,
            "action_space": [acts[options.actions]] * options.agents,
        }
        return told | spaces | {"agent_policy_names": (options.policies * options.agents)[: options.agents]}


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in {"port": 11008, "env_seed": 0, "agents": 1, "length": 5, "at": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("headless", "disable-render-loop", "images", "old"):
        parser.add_argument(f"--{name}", action="store_true")
    for name in ("fixed-fps", "speedup", "action_repeat", "fault", "once"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--actions", default="discrete")
    parser.add_argument("--policies", nargs="+", default=["shared_policy"])
    options = parser.parse_args()
    print("Scripted game", vars(options), flush=True)
    if options.fault == "mute":
        time.sleep(600)
    link = socket.create_connection(("127.0.0.1", options.port))
    game = Game(options)
    assert read(link)["type"] == "handshake"
    while True:
        message = read(link)
        if message["type"] == "close":
            return
        if message["type"] == "env_info":
            send(link, {} if options.fault == "nonsense" else game.info())
            continue
        if message["type"] == "reset":
            game.times = [0] * options.agents
            send(link, {"type": "reset", "obs": game.seen()})
            continue
        answer = game.step(message["action"])
        if options.fault and game.steps == options.at and not (options.once and os.path.exists(options.once)):
            if options.once:
                open(options.once, "w").close()
            if options.fault == "crash":
                print("ERROR: stack overflow", flush=True)
                os._exit(4)
            if options.fault == "hang":
                time.sleep(600)
            if options.fault == "garbage":
                link.sendall(struct.pack("<I", 5) + b"{oops")
                time.sleep(600)
            if options.fault == "closed":
                link.close()
                time.sleep(600)
            if options.fault == "short":
                answer["reward"] = []
        send(link, answer)


if __name__ == "__main__":
    main()
