"""The slots of this machine, as who gives the turns holds them: processes are started, told, listened to, watched, and reaped."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from shoal.base.descendants import kill_tree
from shoal.launchers.forkserver import context, kill_orphans, start_process
from shoal.launchers.links import Attention, Limits
from shoal.launchers.supervisor import ARRIVING
from shoal.population.folder import PopulationFolder
from shoal.population.slot import serve
from shoal.population.turn import Result, Turn, from_bytes, to_bytes
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard

ENDING = 2.0
"""Seconds until a killed process is gone."""
PATIENCE = 30.0
"""Seconds that members have to save themselves when the population ends."""


@dataclass(frozen=True)
class Failed:
    """A turn came to no end."""

    cause: str
    wrong_input: bool = False
    """It would fail again."""


@dataclass
class _Slot:
    process: BaseProcess
    connection: Connection
    turn: Turn | None = None
    at: dict[str, Any] | None = None
    """Where the member stands."""


class SlotPool(Protocol):
    """Where members take turns, wherever that is."""

    def room(self, wanted: int) -> int:
        """How many of so many turns can begin now."""

    def first(self, turns: Sequence[Turn]) -> Turn:
        """Whose turn begins next, where a slot is free."""

    def give(self, turn: Turn) -> None:
        """A member gets a slot that is free."""

    @property
    def busy(self) -> dict[str, int]:
        """Member -> its slot."""

    def at(self, member: str) -> dict[str, Any]:
        """Where a member in a slot stands, as it last said."""

    def pids(self) -> dict[int, int | None]:
        """Slot -> its process."""

    def recall(self, *members: str) -> None:
        """These shall save themselves and make room."""

    def wait(self, timeout: float, *others: Any) -> None:
        """Until a slot says something or dies, or one of `others` can be read."""

    def ended(self) -> Iterator[tuple[Turn, Result | Failed]]:
        """Turns that came to an end since, well or not."""

    def close(self) -> None:
        """End all slots. Whoever is to save something has been recalled before."""


@dataclass(frozen=True)
class Supply:
    """How many members work at once, and who makes the slots for those of a folder."""

    count: int
    make: Callable[[PopulationFolder], SlotPool]


class Slots:
    """So many processes, each started when it is first needed and kept for those that come after. `title`: what a slot is called,
    by its number."""

    def __init__(self, settings: Path, count: int, limits: Limits, title: str = "slot {}") -> None:
        self._settings, self._count, self._limits, self._title = settings, count, limits, title
        self._board, self._attention = HeartbeatBoard.create(count), Attention()
        self._slots: dict[int, _Slot] = {}
        self._were_in: dict[str, int] = {}

    def room(self, wanted: int) -> int:
        """How many of so many turns can begin now."""
        return min(wanted, len(self.free))

    def first(self, turns: Sequence[Turn]) -> Turn:
        """Of those that go as far as the first: who was in a free slot before, else who was in none. In another slot one has to
        play its open episodes again."""
        alike, free = [turn for turn in turns if turn.until == turns[0].until], self.free
        back = [turn for turn in alike if self._were_in.get(turn.member) in free]
        new = [turn for turn in alike if turn.member not in self._were_in]
        return (back or new or alike)[0]

    def give(self, turn: Turn) -> None:
        """A member gets the slot that it was in before, where its environments may still be, or the first that is free."""
        free, before = self.free, self._were_in.get(turn.member)
        number = before if before in free else free[0]
        self._were_in[turn.member] = number
        if number not in self._slots:
            self._slots[number] = self._start(number)
        slot = self._slots[number]
        self._board.place(number).begin(ARRIVING, in_env=False)
        slot.turn, slot.at = turn, None
        with contextlib.suppress(OSError):  # it died: that is seen in a moment
            slot.connection.send_bytes(to_bytes(turn=turn))

    def _start(self, number: int) -> _Slot:
        here, there = context().Pipe()
        words = (os.getpid(), there, self._board.handle, number, str(self._settings), os.getcwd())
        process = context().Process(target=serve, args=words, name=f"slot-{number}", daemon=True)
        start_process(process)
        there.close()
        return _Slot(process, here)

    @property
    def free(self) -> list[int]:
        """Slots that nobody is in."""
        return [
            number for number in range(self._count) if number not in self._slots or self._slots[number].turn is None
        ]

    @property
    def busy(self) -> dict[str, int]:
        """Member -> its slot."""
        return {slot.turn.member: number for number, slot in self._slots.items() if slot.turn is not None}

    def at(self, member: str) -> dict[str, Any]:
        """Where a member in a slot stands, as it last said."""
        number = self.busy.get(member)
        return {} if number is None else {"slot": number, **(self._slots[number].at or {})}

    def pids(self) -> dict[int, int | None]:
        """Slot -> its process."""
        return {number: slot.process.pid for number, slot in self._slots.items()}

    def recall(self, *members: str) -> None:
        """These shall save themselves and make room."""
        for slot in self._slots.values():
            if slot.turn is not None and slot.turn.member in members:
                with contextlib.suppress(OSError):
                    slot.connection.send_bytes(to_bytes(leave=slot.turn.member))

    def wait(self, timeout: float, *others: Any) -> None:
        """Until a slot says something or dies, or one of `others` can be read."""
        slots = self._slots.values()
        wait([*(slot.connection for slot in slots), *(slot.process.sentinel for slot in slots), *others], timeout)

    def ended(self) -> Iterator[tuple[Turn, Result | Failed]]:
        """Turns that came to an end since, well or not. Who is silent for too long is killed."""
        self._attention.look()
        for number, slot in list(self._slots.items()):
            end = self._hear(slot) or self._death(number, slot)
            if isinstance(end, Failed):
                self._reap(number)
            if end is not None and slot.turn is not None:
                turn, slot.turn = slot.turn, None
                yield turn, end

    def _hear(self, slot: _Slot) -> Result | Failed | None:
        with contextlib.suppress(EOFError, OSError):
            while slot.connection.poll():
                said = from_bytes(slot.connection.recv_bytes())
                if "result" in said:
                    result: Result = said["result"]
                    return result
                if "failed" in said:
                    return Failed(said["failed"], said["wrong_input"])
                slot.at = said["at"]
        return None

    def _death(self, number: int, slot: _Slot) -> Failed | None:
        if (code := slot.process.exitcode) is not None:
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            return Failed(f"{self._called(number)} ended {how}")
        if slot.turn is None:
            return None
        pulse = self._attention.heard(self._board.pulse(number))
        cause = self._limits.exceeded(self._called(number), pulse)
        return None if cause is None else Failed(cause)

    def _called(self, number: int) -> str:
        return f"the process of {self._title.format(number)}"

    def _reap(self, number: int) -> None:
        slot = self._slots.pop(number)
        if slot.process.pid is not None:
            kill_tree(slot.process.pid)
        slot.process.join(ENDING)
        kill_orphans()
        slot.connection.close()
        self._board.clear(number)

    def close(self) -> None:
        """End all processes. Whoever is to save something has been recalled before."""
        for slot in self._slots.values():
            with contextlib.suppress(OSError):
                slot.connection.send_bytes(to_bytes(end=True))
        deadline = time.monotonic() + ENDING
        for slot in self._slots.values():
            slot.process.join(max(0.0, deadline - time.monotonic()) if slot.turn is None else 0.0)
        for number in list(self._slots):
            self._reap(number)
        self._board.close()
