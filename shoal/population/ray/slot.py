"""A slot on a machine of a cluster: a Ray actor that has a slot of its own machine, and a copy of the member's folder in it.

Consumes a turn and the folder that it goes on from; produces, as often as it is looked at, what changed there since. The folder at
home is the run: what was not looked at when this machine was lost did not happen.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import ray

from shoal.base.files import list_folder, make_folder, plain_file, private_folder, write_atomic
from shoal.launchers.forkserver import warm
from shoal.launchers.links import Limits
from shoal.launchers.ray.private import exposure
from shoal.monitoring.run_folder import POPULATION, RunFolder
from shoal.population.mirror import Outgoing, Parcel, take_in
from shoal.population.slots import Failed, Slots
from shoal.population.turn import Result, Turn

LOOK = 0.5
"""Seconds that a look waits for something to see."""


class SlotOrder(NamedTuple):
    """What a slot is told when it begins."""

    number: int
    population: str
    settings: bytes
    """That all members share."""
    limits: Limits
    argv: list[str]
    """The command that was typed."""
    variables: dict[str, str]
    """What its environment says to W&B."""


class Place(NamedTuple):
    """Where a slot found room."""

    machine: str
    process: int
    problem: str | None
    """Why nothing should be trained there."""


class Seen(NamedTuple):
    """A moment of a turn."""

    at: dict[str, Any]
    """Where the member stands."""
    changes: Parcel
    end: Result | Failed | None


class RaySlot:
    """Its methods run one after the other."""

    def __init__(self, order: SlotOrder) -> None:
        sys.argv = order.argv
        os.environ.update(order.variables)
        warm()
        self._scratch, self._lock = _own_folder()
        self._folder = self._scratch / order.population
        make_folder(self._folder)
        write_atomic(self._folder / POPULATION, order.settings)
        self._machine = ray.util.get_node_ip_address()
        title = f"slot {order.number} on {self._machine}"
        self._slots = Slots(self._folder / POPULATION, 1, order.limits, title)

    def where(self) -> Place:
        """The machine, this process, and what is wrong there."""
        return Place(self._machine, os.getpid(), exposure())

    def give(self, turn: Turn, run: Parcel) -> Seen:
        """A member comes in, with its folder."""
        self._member = RunFolder(self._folder / turn.member)
        shutil.rmtree(self._member.path, ignore_errors=True)
        if run.files:
            take_in(self._member, run, keep=max(1, len(run.checkpoints)))
        self._outgoing = Outgoing(self._member)
        self._slots.give(turn)
        return self.look()

    def look(self) -> Seen:
        """What happened since the last look. The one that tells of the end has all that the member wrote before it."""
        self._slots.wait(LOOK)
        ends = [end for _, end in self._slots.ended()]
        at = self._slots.at(self._member.path.name)
        changes = self._outgoing.collect()
        if ends:
            shutil.rmtree(self._member.path, ignore_errors=True)
        return Seen(at, changes, ends[0] if ends else None)

    def recall(self, member: str) -> None:
        """It shall save itself and make room."""
        self._slots.recall(member)

    def close(self) -> None:
        """Nobody comes any more."""
        self._slots.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


def _own_folder() -> tuple[Path, int]:
    """A folder for temporary files, and the lock that says that it is used; those of slots that were killed are removed."""
    base = private_folder("shoal-slots")
    with open(base / ".lock", "wb", opener=plain_file) as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        for left in list_folder(base):
            if left.is_dir() and (handle := _claimed(left)) is not None:
                os.close(handle)
                shutil.rmtree(left, ignore_errors=True)
        path = Path(tempfile.mkdtemp(dir=base))
        handle = _claimed(path)
        assert handle is not None, "nobody else knows it"
        return path, handle


def _claimed(folder: Path) -> int | None:
    """The lock of a folder; None: somebody has it. The kernel lets go when a process dies."""
    handle = plain_file(folder / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle
