"""A population: members take turns in slots, here or on a cluster, and every decision about them is a line of its journal first.

Consumes results of turns and orders of people; produces turns. The journal is all that it has to remember: whoever kills it, at
any moment, finds it there when it is resumed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shoal.api.experiment import LogConfig
from shoal.api.population import BudgetConfig
from shoal.base.errors import InputError
from shoal.base.files import disk_trouble
from shoal.base.table import did_you_mean
from shoal.checkpoints.store import CheckpointStore
from shoal.launchers.interrupts import Interrupts
from shoal.monitoring.run_folder import RunFolder, wall_time
from shoal.population.copying import take_over
from shoal.population.exporter import PopulationExporter
from shoal.population.folder import PopulationFolder
from shoal.population.journal import Line
from shoal.population.slots import PATIENCE, Failed, Supply
from shoal.population.state import RETRIES, Member, State, summary
from shoal.population.strategy import Strategy
from shoal.population.turn import Result
from shoal.runs.panel import Panel
from shoal.runs.watchers import Watchers

LOOK = 0.25
"""Seconds between two looks at the clock."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Ended:
    """How a population ended."""

    folder: Path
    reason: str
    state: State
    seconds: float
    interrupted: bool


class Population:
    """The members of one folder. `tell` hears what is worth a line; `show` is called again and again with the whole."""

    def __init__(
        self, folder: PopulationFolder, strategy: Strategy, budget: BudgetConfig, supply: Supply, log: LogConfig, *,
        tell: Tell, show: Callable[[Population], None],
    ) -> None:  # fmt: skip
        self.folder, self.parallel = folder, supply.count
        self._strategy, self._budget, self._supply, self._tell, self._show = strategy, budget, supply, tell, show
        self._journal = folder.journal
        self._home, self._log = RunFolder(folder.path), log
        self._watchers = Watchers(self._home, log.model_copy(update={"wandb": None}), folder.name)
        self._began = time.monotonic()
        self._interrupts = Interrupts()
        self._stop: str | None = None

    def run(self) -> Ended:
        """Until there is nothing left to do, the budget is spent, or somebody ends it."""
        with disk_trouble(self.folder.path), ExitStack() as stack:
            self._home.lock()
            stack.callback(self._home.unlock)
            stack.enter_context(closing(self._journal))
            self.state = State(self._journal.open())
            self._before = self.state.seconds
            self._write("begun", time=wall_time(), seconds=self._before)
            stack.enter_context(self._watchers)  # before the slots: told of an error when nobody works any more
            self._watchers.begin(self._tell, self._tell)
            self.slots = stack.enter_context(closing(self._supply.make(self.folder)))
            panel = stack.enter_context(closing(Panel(self._home, self.obey)))
            self._exporter = self._export(stack)
            with self._interrupts:
                reason = self._work(panel)
            self._write("over", reason=reason, seconds=self.seconds)
            self._watchers.end(reason, self.steps, self.updates)
        return Ended(self.folder.path, reason, self.state, self.seconds, self._interrupts.caught is not None)

    def _export(self, stack: ExitStack) -> PopulationExporter | None:
        if (config := self._log.prometheus) is None:
            return None
        exporter = stack.enter_context(closing(PopulationExporter(self._home, self.folder.name, config, self.parallel)))
        self._tell(exporter.note)
        return exporter

    @property
    def seconds(self) -> float:
        """Wall time, of all starts."""
        return self._before + time.monotonic() - self._began

    # ------------------------------------------------------------ the loop

    def _work(self, panel: Panel) -> str:
        while True:
            self._take_over()
            self._decide()
            reason = self._reason()
            if reason is not None and not self.slots.busy:
                return reason
            if reason is not None:
                self._end(panel)
                return reason
            if not self.state.paused:
                self._fill_slots()
            self._show(self)
            self._listen(panel)

    def _listen(self, panel: Panel) -> None:
        """Until somebody says something, or for a moment."""
        self.slots.wait(LOOK, panel)
        panel.poll()
        self._hear()
        self._watchers.look(self.steps, self.updates, self._word)
        if self._exporter is not None:
            paused = self._word == "paused"
            self._exporter.look(self.state, busy=len(self.slots.busy), steps=self.steps, paused=paused)

    def _reason(self) -> str | None:
        if self._interrupts.caught:
            return f"interrupted by {self._interrupts.caught}"
        return self._stop or self._spent() or self._strategy.over(self.state)

    def _spent(self) -> str | None:
        budget = self._budget
        if budget.steps is not None and self.steps >= budget.steps:
            return f"budget.steps = {budget.steps:,} spent"
        if budget.core_seconds is not None and self.state.core_seconds >= budget.core_seconds:
            return f"budget.core_seconds = {budget.core_seconds:g} spent"
        if budget.seconds is not None and self.seconds >= budget.seconds:
            return f"budget.seconds = {budget.seconds:g} spent"
        return None

    @property
    def steps(self) -> int:
        """Of all members; of those in slots, as far as they last said."""
        open_ = [self.slots.at(name).get("steps", 0) - self.state.members[name].steps for name in self.slots.busy]
        return self.state.steps + sum(max(0, steps) for steps in open_)

    @property
    def updates(self) -> int:
        """Of all members, with those that they took over; of those in slots, as far as they last said."""
        return sum(self.slots.at(member.name).get("version", member.version) for member in self.state.members.values())

    @property
    def _word(self) -> str:
        """Nobody waits for one whose members are all paused, by orders to each."""
        living = self.state.living()
        paused = self.state.paused or (bool(living) and all(member.state == "paused" for member in living))
        return "stopping" if self._stop else "paused" if paused else "running"

    def _decide(self) -> None:
        while decisions := self._strategy.decide(self.state):
            for decision in decisions:
                self._write(**decision)
            self._take_over()

    def _take_over(self) -> None:
        """Carry out the copies that were decided, in that order: who is copied from may take over something itself, later."""
        pending = [member for member in self.state.members.values() if member.copy is not None]
        for member in sorted(pending, key=lambda each: (each.copy or {})["order"]):
            assert member.copy is not None
            donor = CheckpointStore(self.folder.path / member.copy["origin"] / "checkpoints")
            folder = RunFolder(self.folder.path / member.name)
            keep = int(folder.read_config()["checkpoint"]["keep"])
            take_over(donor, member.copy["version"], CheckpointStore(folder.checkpoints, keep), folder)
        for member in pending:
            self._write("taken", member=member.name)

    def _fill_slots(self) -> None:
        # who is in a slot and wants the next turn was told to leave, and is about to
        turns = [turn for turn in self._strategy.turns(self.state) if turn.member not in self.slots.busy]
        for _ in range(min(len(turns), self.slots.room(len(turns)))):
            turns.remove(turn := self.slots.first(turns))
            self._write("started", member=turn.member, until=turn.until)
            self.slots.give(turn)

    def _end(self, panel: Panel) -> None:
        """Members save themselves; another signal ends that."""
        self.slots.recall(*self.slots.busy)
        deadline = time.monotonic() + PATIENCE
        while self.slots.busy and time.monotonic() < deadline:
            self._listen(panel)

    # ------------------------------------------------------------ what became of turns

    def _hear(self) -> None:
        for turn, end in self.slots.ended():
            member = self.state.members[turn.member]
            if isinstance(end, Result):
                self._take_result(member, end)
            else:
                self._take_failure(member, end)

    def _take_result(self, member: Member, result: Result) -> None:
        kind = "left" if result.left else "turn"
        self._write(kind, member=member.name, over=result.over, **asdict(result))
        if result.over and result.reason.startswith("stopped"):  # by order, or by W&B
            self._write("stopped", member=member.name, reason=result.reason)
        if member.over:
            score = "" if member.score is None else f", {member.score.mean:,.1f}"
            self._tell(f"{self._called(member)}: {result.reason}, {result.steps:,} steps{score}")

    def _take_failure(self, member: Member, failure: Failed) -> None:
        if failure.wrong_input or member.tries >= RETRIES:
            self._write("failed", member=member.name, reason=failure.cause)
            self._tell(f"{self._called(member)} failed, and the others go on: {failure.cause}")
        else:
            self._write("crashed", member=member.name, reason=failure.cause)
            self._tell(f"{self._called(member)} is tried again: {failure.cause}")

    def _called(self, member: Member) -> str:
        words = self._strategy.line(member)
        return f"{member.name} ({words})" if words else member.name

    def _write(self, kind: str, **facts: Any) -> Line:
        line = self._journal.append(kind, **facts)
        self.state.apply(line)
        return line

    # ------------------------------------------------------------ orders of people

    def obey(self, order: str) -> dict[str, Any]:
        """`status`, `stop`, `pause`, `unpause`; all but the first also of one member, by its name."""
        word, *names = order.split() or [""]
        if word == "status":
            return self.status()
        if word not in ("stop", "pause", "unpause") or len(names) > 1:
            raise InputError(
                f"there is no order '{order}': choose from status, stop, pause, unpause, or name a member behind it"
            )
        if names:
            return self._obey_for(self._member(names[0]), word)
        if word == "stop":
            self._stop = "stopped by order"
            return {"state": "stopping"}
        if self.state.paused != (word == "pause"):
            self._write("paused" if word == "pause" else "unpaused", reason="by order")
        if word == "pause":
            self.slots.recall(*self.slots.busy)
        return {"state": "paused" if word == "pause" else "running"}

    def _obey_for(self, member: Member, word: str) -> dict[str, Any]:
        if member.over:
            raise InputError(f"{member.name} is {member.state} already: {member.reason}")
        if word == "stop":
            self._write("stopped", member=member.name, reason="stopped by order")
        elif (word == "pause") != (member.state == "paused"):
            self._write("paused" if word == "pause" else "unpaused", member=member.name, reason="by order")
        self.slots.recall(*({member.name} if word != "unpause" else ()))
        return {"state": member.state}

    def _member(self, name: str) -> Member:
        if name not in self.state.members:
            raise InputError(f"there is no member '{name}'; {did_you_mean(name, self.state.members)}")
        return self.state.members[name]

    def status(self) -> dict[str, Any]:
        """The whole as one document."""
        members = [self._status_of(member) for member in self.state.members.values()]
        return {
            "population": self.folder.name, "pid": os.getpid(),
            "state": self._word,
            "elapsed": self.seconds, "steps": self.steps, "core_seconds": self.state.core_seconds,
            "budget": self._budget.model_dump(exclude_none=True), "slots": self.parallel,
            "processes": self.slots.pids(), "members": members,
        }  # fmt: skip

    def _status_of(self, member: Member) -> dict[str, Any]:
        return {**summary(member), "line": self._strategy.line(member), **self.slots.at(member.name)}
