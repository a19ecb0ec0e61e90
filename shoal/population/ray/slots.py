"""The slots of a cluster, as who gives the turns holds them: Ray finds their places, and what members write there comes home.

A slot is asked for when somebody would take a turn in it, and counts once Ray has found room. One whose machine is lost is gone,
and its member is tried again in another.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from shoal.api.experiment import Experiment
from shoal.base.errors import InputError, ShoalError, one_line
from shoal.launchers.links import Limits
from shoal.launchers.ray.cluster import HeadWatch, actor_options, connected, holds, no_room, not_on_head
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.wandb_sink import wandb_variables
from shoal.population.folder import PopulationFolder
from shoal.population.mirror import departure, take_in
from shoal.population.ray.slot import Place, RaySlot, Seen, SlotOrder
from shoal.population.settings import member_experiment, settings_to_send
from shoal.population.slots import Failed, Supply
from shoal.population.turn import Result, Turn
from shoal.program.processes import bundle
from shoal.runs.outcome import Cluster

POLL = 0.02
"""Seconds between two looks whether a slot has said something."""
STARTING = 240.0
"""Seconds that a slot may take to start, on top of the wait for its place."""
STARTS = 3
"""Slots in a row that may end before they have begun."""
HEAD_LOST = 30.0
"""Seconds without an answer of Ray's head after which it is given up."""
ENDING = 5.0
"""Seconds that slots have to remove what they wrote."""


@contextmanager
def cluster_slots(experiment: Experiment, cluster: Cluster, parallel: int | None) -> Iterator[Supply]:
    """As many as the cluster holds, or `parallel`, once there is room for them."""
    requested = member_resources(experiment)
    cpus = (parallel or 0) * requested.get("CPU", 0)
    with connected(cluster.address, cpus=cpus, working_dir=cluster.working_dir):
        room = holds(requested, head=experiment.placement.cluster.head)
        if not room:
            raise InputError(f"no machine of the cluster holds a member: {_why_not(requested, experiment, free=False)}")
        count = parallel or room
        yield Supply(count, lambda folder: RaySlots(folder, experiment, requested, count))


def member_resources(experiment: Experiment) -> dict[str, float]:
    """What a member asks for: its workers take turns in one process, and of such a process it is what its trainer asks for."""
    placement = experiment.placement
    requested = placement.cluster.trainer
    accelerated = placement.device.startswith("cuda") and not requested.gpus
    return bundle(requested.model_copy(update={"gpus": 1.0}) if accelerated else requested)


def _why_not(requested: dict[str, float], experiment: Experiment, *, free: bool) -> str:
    return no_room(requested, head=experiment.placement.cluster.head, free=free)


@dataclass
class _Slot:
    actor: Any
    answer: Any = None
    """That is awaited."""
    machine: str = ""
    """Its address; empty: it has no place yet."""
    process: int = 0
    turn: Turn | None = None
    at: dict[str, Any] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        return bool(self.machine) and self.turn is None


class RaySlots:
    """So many slots at most, each with what a member asks for. `folder`: at home, where the runs are."""

    def __init__(
        self, folder: PopulationFolder, experiment: Experiment, requested: dict[str, float], count: int
    ) -> None:
        self._folder, self._experiment, self._requested, self._count = folder, experiment, requested, count
        config = experiment.placement.cluster
        labels = {} if config.head else not_on_head()
        self._options = {
            **actor_options(requested), "max_restarts": 0, "max_task_retries": 0,
            "scheduling_strategy": "SPREAD" if config.strategy == "spread" else "DEFAULT",
            **({"label_selector": labels} if labels else {}),
        }  # fmt: skip
        self._slots: dict[int, _Slot] = {}
        self._head, self._failed_starts = HeadWatch(), 0
        self._homeless: float | None = None
        """Since when somebody wants a turn, and no slot has a place."""

    # ------------------------------------------------------------ turns

    def room(self, wanted: int) -> int:
        """How many of so many turns can begin now. Slots that are missing for them are asked for."""
        idle = sum(slot.idle for slot in self._slots.values())
        coming = sum(not slot.machine for slot in self._slots.values())
        for _ in range(min(self._count - len(self._slots), wanted - idle - coming)):
            self._start()
        placed = any(slot.machine for slot in self._slots.values())
        self._homeless = None if placed or not wanted else self._homeless or time.monotonic()
        if self._homeless is not None:
            self._check_places(time.monotonic() - self._homeless)
        return idle

    def _start(self) -> None:
        number = next(number for number in range(self._count) if number not in self._slots)
        settings = settings_to_send(self._folder.settings)
        order = SlotOrder(number, self._folder.name, settings, Limits.of(self._experiment), sys.argv, wandb_variables())
        actor = ray.remote(RaySlot).options(**self._options).remote(order)
        self._slots[number] = _Slot(actor, actor.where.remote())

    def _check_places(self, seconds: float) -> None:
        """Nobody waits for machines that are gone for longer than was said. Where there are some, they may be busy with others, or
        with starting a slot, which looks the same."""
        patience = self._experiment.placement.cluster.wait
        if seconds <= patience:
            return
        remedy = "add a machine or ask for less, then go on with --resume"
        if lacking := _why_not(self._requested, self._experiment, free=False):
            raise ShoalError(
                f"no member found a place within placement.cluster.wait = {patience:g} s: {lacking}: {remedy}"
            )
        if seconds > patience + STARTING:
            busy = _why_not(self._requested, self._experiment, free=True) or "see Ray's own logs"
            raise ShoalError(f"no slot began within {seconds:.0f} s: {busy}: {remedy}")

    def first(self, turns: Sequence[Turn]) -> Turn:
        """As they come: folders travel from home whichever slot it is."""
        return turns[0]

    def give(self, turn: Turn) -> None:
        """A member gets a slot that is free, and its folder goes along."""
        slot = next(slot for slot in self._slots.values() if slot.idle)
        slot.turn, slot.at = turn, {}
        slot.answer = slot.actor.give.remote(turn, departure(RunFolder(self._folder.path / turn.member)))

    @property
    def busy(self) -> dict[str, int]:
        """Member -> its slot."""
        return {slot.turn.member: number for number, slot in self._slots.items() if slot.turn is not None}

    def at(self, member: str) -> dict[str, Any]:
        """Where a member in a slot stands, as it last said, and on which machine."""
        number = self.busy.get(member)
        if number is None:
            return {}
        slot = self._slots[number]
        return {**slot.at, "slot": number, "node": slot.machine}

    def pids(self) -> dict[int, int | None]:
        """Slot -> its process, on its machine."""
        return {number: slot.process or None for number, slot in self._slots.items()}

    def recall(self, *members: str) -> None:
        """These shall save themselves and make room."""
        for slot in self._slots.values():
            if slot.turn is not None and slot.turn.member in members:
                slot.actor.recall.remote(slot.turn.member)

    # ------------------------------------------------------------ what they say

    def wait(self, timeout: float, *others: Any) -> None:
        """Until a slot says something, or one of `others` can be read."""
        deadline = time.monotonic() + timeout
        awaited = [slot.answer for slot in self._slots.values() if slot.answer is not None]
        while time.monotonic() < deadline and not wait(others, POLL):
            if awaited and ray.wait(awaited, timeout=0)[0]:
                return

    def ended(self) -> Iterator[tuple[Turn, Result | Failed]]:
        """Turns that came to an end since, well or not. What members wrote meanwhile is at home by then."""
        if self._head.lost > HEAD_LOST:
            raise ShoalError(
                f"Ray's head at {self._head.address} has not answered for {self._head.lost:.0f} s: start Ray again, "
                "then go on with --resume"
            )
        for number, slot in list(self._slots.items()):
            if slot.answer is None or not ray.wait([slot.answer], timeout=0)[0]:
                continue
            answer, slot.answer = slot.answer, None
            try:
                end = self._hear(slot, ray.get(answer))
            except RayError as error:
                end = self._lose(number, slot, error)
            if end is not None and slot.turn is not None:
                turn, slot.turn = slot.turn, None
                yield turn, end

    def _hear(self, slot: _Slot, said: Place | Seen) -> Result | Failed | None:
        if isinstance(said, Seen):
            return self._take_home(slot, said)
        if said.problem is not None:
            raise InputError(said.problem)
        slot.machine, slot.process, self._failed_starts = said.machine, said.process, 0
        return None

    def _take_home(self, slot: _Slot, seen: Seen) -> Result | Failed | None:
        assert slot.turn is not None
        folder = RunFolder(self._folder.path / slot.turn.member)
        keep = (
            member_experiment(self._folder.settings, slot.turn.words).checkpoint.keep if seen.changes.checkpoints else 1
        )
        take_in(folder, seen.changes, keep)
        slot.at = seen.at
        if seen.end is None:
            slot.answer = slot.actor.look.remote()
        return replace(seen.end, machine=slot.machine) if isinstance(seen.end, Result) else seen.end

    def _lose(self, number: int, slot: _Slot, error: RayError) -> Failed:
        """The slot is gone, or its machine, or out of reach: another takes its place."""
        cause = one_line(error.cause) if isinstance(error, RayTaskError) else str(error).strip().partition("\n")[0]
        del self._slots[number]
        self._kill(slot)
        if not slot.machine:
            self._failed_starts += 1
            if self._failed_starts == STARTS:
                raise ShoalError(f"slots end before they have begun ({cause}): see Ray's own logs")
        return Failed(f"slot {number} on {slot.machine or 'its way'} is lost: {cause}")

    def _kill(self, slot: _Slot) -> None:
        with contextlib.suppress(RayError):
            ray.kill(slot.actor, no_restart=True)

    def close(self) -> None:
        """End all of them. Whoever is to save something has been recalled before."""
        ends = [slot.actor.close.remote() for slot in self._slots.values() if slot.machine]
        if ends and self._head.lost < HEAD_LOST:
            ray.wait(ends, num_returns=len(ends), timeout=ENDING)
        for slot in self._slots.values():
            self._kill(slot)
        self._slots = {}
