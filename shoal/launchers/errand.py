"""Something with an environment in it that is not part of a run: done in a process of its own, which may hang or die there.

The main process of a run never steps an environment itself, but `--on inline`: whatever an environment does, somebody is left who
can say so in one line.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]
from multiprocessing.reduction import ForkingPickler
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch

from shoal.api.worker import Heartbeat
from shoal.base.descendants import kill_tree
from shoal.base.errors import ShoalError
from shoal.launchers.forkserver import context, leave_server, start_process
from shoal.launchers.links import Attention, Limits
from shoal.launchers.process import STARTING, die_with
from shoal.launchers.supervisor import ARRIVING
from shoal.streams.control import MessageReader
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard
from shoal.streams.transports.shm.segment import SegmentHandle

ENDING = 2.0
"""Seconds until a killed process is gone."""
LOOK = 0.1
"""Seconds between two looks."""

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""What a function is called with."""
_P = ParamSpec("_P")
_R = TypeVar("_R")


def nothing(seconds: float) -> None:
    """Meanwhile."""


def said_once(line: str) -> Callable[[float], None]:
    """Meanwhile: what is happening, for people, once it takes a second."""
    said = False

    def tell(seconds: float) -> None:
        nonlocal said
        if seconds >= 1 and not said:
            print(line, file=sys.stderr, flush=True)
            said = True

    return tell


class Errand:
    """`meanwhile` is called again and again with the seconds that have passed; whatever it raises ends the errand."""

    def __init__(self, what: str, limits: Limits, meanwhile: Callable[[float], None]) -> None:
        self._what, self._limits, self._meanwhile = what, limits, meanwhile

    def run(self, function: Callable[Concatenate[Heartbeat, _P], _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Until it is done, fails, dies or hangs."""
        (found,) = self.run_all(function, [(args, kwargs)])
        return found

    def run_all(
        self, function: Callable[..., _R], calls: Sequence[Call]
    ) -> list[_R]:  # fmt: skip
        """The same for several at once, each in a process of its own: what they found, in the order of `calls`."""
        began, sent = time.monotonic(), list[_Sent]()
        found: dict[int, _R] = {}
        try:
            sent += (_Sent(self._what, self._limits, function, *call) for call in calls)
            while True:
                waiting = [number for number in range(len(sent)) if number not in found]
                wait([sent[number].here for number in waiting], LOOK)
                for number in waiting:
                    if (answer := sent[number].answer()) is not None:
                        found[number] = answer[0]
                if len(found) == len(sent):
                    return [found[number] for number in range(len(sent))]
                self._meanwhile(time.monotonic() - began)
        finally:
            for each in sent:
                each.close()


class _Sent:
    """One process that is under way."""

    def __init__(self, what: str, limits: Limits, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._what, self._limits, self._board = what, limits, HeartbeatBoard.create(1)
        self.here, there = context().Pipe()
        words = (os.getpid(), there, self._board.handle, function, args, kwargs)
        self._process = context().Process(target=_serve, args=words, name=what, daemon=True)
        self._board.place(0).begin(ARRIVING, in_env=False)
        start_process(self._process)
        there.close()
        self._attention, self._reader = Attention(), MessageReader(self.here)

    def answer(self) -> tuple[Any] | None:
        """What it found; None: it is at work. Whatever it failed by is raised."""
        ended = self._process.exitcode  # before the look at what it said: that comes first
        with contextlib.suppress(EOFError, OSError):
            if self.here.poll(0) and (found := self._reader.take()) is not None:
                return (_result(found),)
        if ended is not None:
            raise ShoalError(f"{self._what}: the environment ended its process ({_how(ended)})")
        self._attention.look()
        cause = self._limits.exceeded(self._what, self._attention.heard(self._board.pulse(0)))
        if cause is not None:
            raise ShoalError(cause)
        return None

    def close(self) -> None:
        """It ends, whatever it does."""
        kill_tree(*filter(None, [self._process.pid]))
        self._process.join(ENDING)
        self.here.close()
        self._board.close()


def _how(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _result(data: bytes) -> Any:
    done, found = ForkingPickler.loads(data)
    if done:
        return found
    raise found


def _serve(
    launcher: int, connection: Connection, board: SegmentHandle, function: Callable[..., Any], args: Any, kwargs: Any
) -> None:
    leave_server()
    die_with(launcher, os.getppid())
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the main process decides what it means
    torch.set_num_threads(1)
    heartbeat = HeartbeatBoard.attach(board).place(0)
    heartbeat.begin(STARTING, in_env=True)
    try:
        said = _bytes((True, function(heartbeat, *args, **kwargs)))
    except SystemExit as error:
        said = _bytes((False, ShoalError(f"the environment called sys.exit({error.code})")))
    except BaseException as error:
        said = _packed(error)
    connection.send_bytes(said)
    os._exit(0)  # threads of an environment are not waited for


def _bytes(value: Any) -> bytes:
    """As `multiprocessing` hands things to the processes it starts: this never leaves a run's own."""
    return bytes(ForkingPickler.dumps(value))


def _packed(error: BaseException) -> bytes:
    """As it is, with its traceback as text; what cannot travel goes as a line."""
    if isinstance(error, ShoalError):
        return _bytes((False, type(error)(str(error))))
    assert isinstance(error, Exception)
    try:
        data = _bytes((False, ExceptionWithTraceback(error, error.__traceback__)))
        ForkingPickler.loads(data)
    except Exception:
        return _bytes(
            (False, ShoalError(f"{''.join(traceback.format_exception(error))}{type(error).__name__}: {error}"))
        )
    return data
