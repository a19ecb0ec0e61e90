"""The copies of a Python environment in processes of their own: batched actions in, a batched `Step` out.

What a copy lives through is what it does in a loop. One that hangs or dies is started anew, and its episode is truncated where it
stood. Where the caller does not wait for all, an answer speaks of the copies that are back: the others act in none until they are.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from pydantic_core import PydanticSerializationError

from shoal.api.env import AgentGroup, Array, Codec, Env, Step, Tree
from shoal.api.experiment import EnvConfig
from shoal.api.space_data import space_from_plain
from shoal.base.arrays import Layout
from shoal.base.descendants import kill_tree
from shoal.base.errors import InputError, ShoalError
from shoal.base.plain import from_plain
from shoal.base.seeding import derive_seed
from shoal.base.table import user_path
from shoal.envs.processes.link import Link, Message, as_text, from_text
from shoal.envs.processes.memory import SharedRows
from shoal.envs.processes.rows import Rows

LOG = logging.getLogger(__name__)
STARTING = 60.0
"""Seconds that a copy may take to be made, on top of `env.timeout`."""
SHARE = 0.8
"""Of `env.timeout`, after which a copy is started anew: before whoever waits for the Env gives up on all of it."""
FAILURES, CALM = 3, 100
"""Starts of a copy in a row that may fail; so many of its steps later it has a clean record."""
PATIENCE, LEAST = 3.0, 0.001
"""Where nobody waits for all: of the time in which half of the copies came back, and seconds at least."""
STEP = {"do": "step"}
SERVER = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from shoal.envs.processes.server import main
main(int(sys.argv[2]))
"""
GRACE = 3.0
"""Seconds in which everything has to end."""


class _Copy:
    """The connection to one."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.since = 0.0
        """When it was told to do what it does now; 0: nothing."""
        self.limit = 0.0
        """Seconds that this may take."""
        self.made = self.anew = False
        """It has an environment; it was started anew, and has not answered since."""
        self.failures = self.steps = 0


class ProcessesEnv(Env):
    """`config`: of single copies, which the processes make for themselves. `make_one` makes one in this process, to look at."""

    def __init__(
        self,
        config: EnvConfig,
        make_one: Callable[[], Env],
        num_envs: int,
        *,
        first_slot: int = 0,
        render: bool = False,
    ) -> None:
        self.num_envs, self._config, self._make_one, self._first_slot = num_envs, config, make_one, first_slot
        self._seed = self._limit = self._starts = 0
        self._stage: int | None = None
        self._memory: SharedRows | None = None
        self._inbox: list[Tree] = []
        self._selector = selectors.DefaultSelector()
        self._copies: list[_Copy] = []
        own, other = socket.socketpair()
        self._server = Link(own)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-c", SERVER, json.dumps(sys.path), str(other.fileno())],
                stdin=subprocess.DEVNULL, pass_fds=[other.fileno()], env=_variables(),
            )  # fmt: skip
        try:
            self._server.send(
                {
                    "config": _as_json(config), "first_slot": first_slot, "render": render,
                    "folder": str(user_path("").absolute()),
                }
            )  # fmt: skip
            self._copies = [_Copy(self._start(row)) for row in range(num_envs)]
            self._read_facts()
        except BaseException:
            self.close()
            raise

    def _read_facts(self) -> None:
        """Of the first copy, which is made for it; the others are made with the first reset."""
        (facts,) = self._ask_each([0], self._begin(None))
        self.groups = {
            name: AgentGroup(tuple(agents), space_from_plain(seen), space_from_plain(acts), stacked)
            for name, (agents, seen, acts, stacked) in facts["groups"].items()
        }
        self.game_return, self.render_fps, self.repeats = facts["game_return"], facts["render_fps"], facts["repeats"]

    # ------------------------------------------------------------ Env

    def reset(self, seed: int) -> Step:
        """Episode 0 of every copy."""
        self._seed = seed
        for row, copy in enumerate(self._copies):
            if copy.since:  # under way; what it would answer is of no use any more
                self._renew(row)
        everyone = list(range(self.num_envs))
        layouts = [from_plain(answer["layout"]) for answer in self._ask_each(everyone, self._begin(seed))]
        if any(layout != layouts[0] for layout in layouts):
            raise ShoalError(f"{self._config.id}: its copies differ in spaces, masks or state; all must be alike")
        memory = self._share(layouts[0])
        for row, answer in enumerate(self._ask_each(everyone, self._show(), (memory.descriptor,))):
            self._rows.take(row, answer)
        return self._rows.step()

    def _share(self, layout: Layout) -> SharedRows:
        if self._memory is not None:
            self._memory.close()
        self._memory = memory = SharedRows(layout, self.num_envs)
        self._inbox = [memory.row(row) for row in range(self.num_envs)]
        self._rows = Rows(self._inbox)
        return memory

    def send(self, actions: dict[str, Array]) -> None:
        """To the copies that are back."""
        now = time.monotonic()
        for row, copy in enumerate(self._copies):
            if copy.since:
                continue
            for group, array in self._inbox[row]["actions"].items():
                array[...] = actions[group][row]
            copy.since, copy.limit = now, 0.0
            try:
                copy.link.send(STEP)
            except OSError:
                self._start_anew(row, "its process ended")

    def recv(self, timeout: float) -> Step:
        """What the copies answered: all of them, or those that did before it took too long."""
        self._rows.clear()
        began, half = time.monotonic(), 0.0
        sent = {row for row, copy in enumerate(self._copies) if copy.since and not copy.limit}
        for row in sent:
            self._copies[row].limit = SHARE * min(timeout, self._config.timeout)
        back: set[int] = set()
        while self._waiting():
            wait = None
            if not self.waits_for_all and back:
                if not half and 2 * len(back & sent) >= len(sent):
                    half = time.monotonic() - began
                if half:
                    wait = began + PATIENCE * half + LEAST - time.monotonic()
                    if wait <= 0 or sent <= back:
                        break
            back |= self._collect(wait)
        return self._rows.step()

    def render(self, row: int) -> Array | None:
        """The copy's own image, where it was built with `render`."""
        if self._copies[row].since:
            return None
        (answer,) = self._ask_each([row], {"do": "render"})
        return None if answer["tree"] is None else from_text(answer["tree"])["image"]

    def codec(self, agent: str, rows: int) -> Codec | None:
        """That of a copy in this process, which is closed again."""
        with contextlib.closing(self._make_one()) as env:
            return env.codec(agent, rows)

    def set_stage(self, number: int) -> bool:
        """Told with the next reset; whether an environment knows stages, a copy in this process says."""
        self._stage = number
        with contextlib.closing(self._make_one()) as env:
            return env.set_stage(number)

    def limit_time(self, steps: int) -> bool:
        """Told to the copies with the first reset."""
        self._limit = min(self._limit or steps, steps)
        return True

    def snapshot(self) -> Tree | None:
        """Those of the copies; None: some are under way."""
        if self._waiting():
            return None
        found = [answer["tree"] for answer in self._ask_each(list(range(self.num_envs)), {"do": "snapshot"})]
        if None in found:
            return None
        copies = tuple(from_text(tree) for tree in found)
        return {"seed": self._seed, "starts": self._starts, "copies": copies, "rows": self._rows.snapshot()}

    def restore(self, tree: Tree) -> None:
        """Each goes on where it was."""
        self._seed, self._starts = tree["seed"], tree["starts"]
        for row, part in enumerate(tree["copies"]):
            self._ask_each([row], {"do": "restore", "tree": as_text(part)})
        self._rows.restore(tree["rows"])

    def close(self) -> None:
        """Copies that do not close themselves are ended."""
        for copy in self._copies:
            copy.link.close()
        self._copies = []
        self._server.close()
        self._selector.close()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            kill_tree(self._process.pid)
            self._process.wait(GRACE)
        if self._memory is not None:
            self._memory.close()
            self._memory, self._rows, self._inbox = None, None, []  # type: ignore[assignment]

    # ------------------------------------------------------------ messages

    def _begin(self, seed: int | None) -> Message:
        told = {"stage": self._stage, "limit": self._limit, "wants_state": self.wants_state, "watched": self.watched}
        return {"do": "begin", "seed": seed, **told}

    def _show(self) -> Message:
        return {"do": "show", "rows": self.num_envs}

    def _ask_each(self, rows: list[int], message: Message, descriptors: tuple[int, ...] = ()) -> list[Message]:
        """The same to all; what each answers. A copy that was just started and fails is started again."""
        for row in rows:
            with contextlib.suppress(OSError):  # its end shows when it is read
                self._copies[row].link.send(message, descriptors)
        found = []
        for row in rows:
            while (answer := self._answer(row)) is None:
                if message["do"] != "begin":
                    raise self._failure(row, f"it ended or hung in {message['do']}")
                self._renew(row, "it ended or hung in reset")
                with contextlib.suppress(OSError):
                    self._copies[row].link.send(message, descriptors)
            found.append(answer)
            self._copies[row].made = True
        return found

    def _answer(self, row: int) -> Message | None:
        """None: it ended, or took too long."""
        limit = SHARE * self._config.timeout + (0.0 if self._copies[row].made else STARTING)
        deadline = time.monotonic() + limit
        with selectors.DefaultSelector() as alone:
            alone.register(self._copies[row].link, selectors.EVENT_READ)
            while not alone.select(min(1.0, max(0.0, deadline - time.monotonic()))):
                if time.monotonic() >= deadline:
                    return None
                if self.between is not None:
                    self.between()
        return self._read(row)

    def _read(self, row: int) -> Message | None:
        try:
            answer: Message = self._copies[row].link.recv()[0]
        except (EOFError, OSError):
            return None
        if "error" in answer:
            raise (InputError if answer["input"] else ShoalError)(answer["error"])
        return answer

    # ------------------------------------------------------------ copies under way

    def _waiting(self) -> bool:
        return any(copy.since for copy in self._copies)

    def _collect(self, wait: float | None) -> set[int]:
        """Rows that came back within `wait` seconds; None: until one does, or is late."""
        now = time.monotonic()
        late = min(copy.since + copy.limit for copy in self._copies if copy.since) - now
        ready = self._selector.select(max(0.0, late if wait is None else min(wait, late)))
        back = {key.data for key, _ in ready if self._receive(key.data)}
        if back and self.between is not None:
            self.between()
        now = time.monotonic()
        for row, copy in enumerate(self._copies):
            if copy.since and now > copy.since + copy.limit:
                self._start_anew(row, f"it did not answer for {copy.limit:.3g} s")
        return back

    def _receive(self, row: int) -> bool:
        """Whether the copy is back."""
        copy, answer = self._copies[row], self._read(row)
        if answer is None:
            self._start_anew(row, "its process ended")
            return False
        if "layout" in answer:  # begun anew; what it shows comes next
            return False
        if copy.anew:
            self._rows.cut(row, answer, {"restarts": float(self._starts)})
        else:
            self._rows.take(row, answer)
            copy.steps += 1
            copy.failures = 0 if copy.steps >= CALM else copy.failures
        copy.since, copy.made, copy.anew = 0.0, True, False
        return True

    def _start_anew(self, row: int, why: str) -> None:
        """In the place of a copy that hung or died; nobody waits for it here."""
        assert self._memory is not None, "reset comes first"
        self._renew(row, why)
        copy, slot = self._copies[row], self._first_slot + row
        copy.since, copy.limit, copy.anew = time.monotonic(), self._config.timeout + STARTING, True
        with contextlib.suppress(OSError):  # its end shows when it is read
            copy.link.send(self._begin(derive_seed(self._seed, "start", slot, self._starts)))
            copy.link.send(self._show(), (self._memory.descriptor,))

    def _renew(self, row: int, why: str | None = None) -> None:
        """Another process for this copy. `why`: its own failed."""
        old, self._starts = self._copies[row], self._starts + 1
        failures = old.failures + (why is not None)
        if why is not None:
            if failures > FAILURES:
                raise self._failure(row, f"{why}, and so did {FAILURES} before it")
            LOG.warning("%s; started anew (failure %d)", self._failure(row, why), failures)
            if self.between is not None:
                self.between()
        self._selector.unregister(old.link)
        old.link.close()
        self._copies[row] = _Copy(self._start(row))
        self._copies[row].failures = failures

    def _start(self, row: int) -> Link:
        own, other = socket.socketpair()
        with other:
            try:
                self._server.send({"row": row}, (other.fileno(),))
            except OSError as error:
                own.close()
                raise self._failure(row, "the process that starts copies has ended") from error
        link = Link(own)
        self._selector.register(link, selectors.EVENT_READ, row)
        return link

    def _failure(self, row: int, why: str) -> ShoalError:
        return ShoalError(f"{self._config.id}, copy {self._first_slot + row}: {why}")


def _variables() -> dict[str, str]:
    """Of the processes: a copy has one thread, unless somebody wants more."""
    return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **os.environ}


def _as_json(config: EnvConfig) -> str:
    try:
        return config.model_dump_json()
    except PydanticSerializationError as error:
        raise InputError(
            f"env.vector = 'processes': env.kwargs = {config.kwargs} has to hold plain values, which other processes can read"
        ) from error
