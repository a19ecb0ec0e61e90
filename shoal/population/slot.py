"""A slot: a warm process in which members take turns.

Consumes turns; produces results, and now and then where the member stands. A member comes from its checkpoint and goes back into
one: what it was before and after a turn does not depend on which slot it was in, or how often it was interrupted.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from shoal.api.experiment import Experiment
from shoal.api.messages import Message, Updated
from shoal.api.orders import Reconfigure
from shoal.api.program import Program
from shoal.api.worker import Heartbeat
from shoal.base.descendants import no_new_children
from shoal.base.errors import InputError, ShoalError, one_line
from shoal.base.files import make_folder
from shoal.base.table import from_here
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from shoal.envs.kept import EnvShelf
from shoal.launchers.forkserver import leave_server
from shoal.launchers.inline import InlineLauncher
from shoal.launchers.launcher import Conductor
from shoal.launchers.process import STARTING, die_with
from shoal.monitoring.jsonl import newest_first
from shoal.monitoring.run_folder import RunFolder
from shoal.population.settings import member_experiment
from shoal.population.turn import ENDED, LEFT, Result, Turn, from_bytes, to_bytes
from shoal.program.env_facts import EnvFacts
from shoal.program.expand import check_settings, expand
from shoal.program.probe import survey
from shoal.runs.evaluate import evaluate
from shoal.runs.run import run_in
from shoal.runs.status import ended
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard
from shoal.streams.transports.shm.segment import SegmentHandle
from shoal.workers.decisions import Give

KEPT = 8
"""Members whose environments a slot keeps as they were left, if they are such that it saves time."""
REMEMBERED = 64
"""Settings of members that a slot has at hand."""
WANTED = f"{LEFT} by order of the population"
REPORT = 0.5
"""Seconds between two reports of where a member stands."""


def serve(parent: int, connection: Connection, board: SegmentHandle, number: int, settings: str, here: str) -> None:
    """The process of one slot: turn by turn, until it is told to end or its parent is gone."""
    leave_server()
    die_with(parent, os.getppid())
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})  # Ctrl-C is for who gives the turns
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    torch.set_num_threads(1)
    os.chdir(here)
    slot = Slot(Path(settings), connection, HeartbeatBoard.attach(board).place(number))
    with contextlib.suppress(EOFError, OSError):
        while "end" not in (order := from_bytes(connection.recv_bytes())):
            if "turn" in order and not slot.answer(order["turn"]):
                sys.exit(1)  # whatever went wrong, the next member begins in a new process


class Slot:
    """What stays warm between two turns."""

    def __init__(self, settings: Path, connection: Connection, heartbeat: Heartbeat) -> None:
        self._settings, self._connection, self._heartbeat = settings, connection, heartbeat
        self._experiments: dict[tuple[str, ...], Experiment] = {}
        """Words of a member -> its settings: reading them takes as long as reading what it has learned."""
        self._facts: dict[str, EnvFacts] = {}
        self._shelves: dict[str, tuple[str, EnvShelf]] = {}
        """Member -> its environments, and the settings that they were made with; those who were here last come last."""
        self._starting = 0.0
        """Seconds that it took to get to know environments: once per slot, and no part of a swap."""

    def answer(self, turn: Turn) -> bool:
        """Give a member its turn, and say what came of it; False: it failed."""
        self._heartbeat.begin(STARTING, in_env=True)
        try:
            with from_here(), no_new_children():
                result = self.play(turn)
        except Exception as error:
            text = str(error) if isinstance(error, ShoalError) else one_line(error)
            self._connection.send_bytes(to_bytes(failed=text, wrong_input=isinstance(error, InputError)))
            return False
        self._connection.send_bytes(to_bytes(result=result))
        gc.collect()
        return True

    def play(self, turn: Turn) -> Result:
        """Bring the member in, let it train, and bring it out again."""
        began, cores, started = time.monotonic(), time.process_time(), self._starting
        experiment = self._experiment_of(turn)
        folder = RunFolder(self._settings.parent / turn.member)
        start = _starting_point(folder, experiment)
        before = 0 if start is None else int(start.meta["steps"])
        launchers: list[SlotLauncher] = []
        reason, steps, version = _already(folder, start, turn) or self._train(
            folder, experiment, start, turn, launchers
        )
        scoring = time.monotonic()
        score = None if reason.startswith(LEFT) else self._score(folder, turn)
        now = time.monotonic()
        worked = now - scoring + sum(launcher.seconds for launcher in launchers) + self._starting - started
        return Result(
            reason, steps, version, max(0, steps - before), score, core_seconds=time.process_time() - cores,
            slot_seconds=now - began, swap_seconds=now - began - worked, process=os.getpid(),
        )  # fmt: skip

    def _train(
        self, folder: RunFolder, experiment: Experiment, start: Checkpoint | None, turn: Turn, made: list[SlotLauncher]
    ) -> tuple[str, int, int]:
        check_settings(experiment)
        program = expand(experiment, exact=True, facts=self._facts_of(experiment))
        shelf = self._shelf_of(turn.member, experiment)

        def launcher(program: Program, start: Checkpoint | None, folder: RunFolder) -> SlotLauncher:
            made.append(
                SlotLauncher(program, start, folder.checkpoints, self._heartbeat, shelf, self._connection, turn)
            )
            return made[-1]

        outcome = run_in(
            folder,
            program,
            start,
            launcher,
            on="inline",
            view=None,
            argv=sys.argv,
            notes=[],
            here=Path.cwd(),
            turn=True,
        )
        return outcome.reason, outcome.steps, outcome.version

    def _experiment_of(self, turn: Turn) -> Experiment:
        words = tuple(turn.words)
        if words not in self._experiments:
            while len(self._experiments) >= REMEMBERED:
                self._experiments.pop(next(iter(self._experiments)))
            self._experiments[words] = member_experiment(self._settings, turn.words)
        return self._experiments[words]

    def _facts_of(self, experiment: Experiment) -> EnvFacts:
        """Of its environment, which is opened once per slot."""
        key = _made_with(experiment)
        if key not in self._facts:
            began = time.monotonic()
            self._facts[key] = survey(self._heartbeat, experiment, place=False).facts
            self._heartbeat.begin(STARTING, in_env=True)
            self._starting += time.monotonic() - began
        return self._facts[key]

    def _shelf_of(self, member: str, experiment: Experiment) -> EnvShelf:
        key, shelf = self._shelves.pop(member, ("", EnvShelf()))
        if key != _made_with(experiment):
            shelf.close()
        self._shelves[member] = (_made_with(experiment), shelf)
        while len(self._shelves) > KEPT:
            self._shelves.pop(next(iter(self._shelves)))[1].close()
        return shelf

    def _score(self, folder: RunFolder, turn: Turn) -> dict[str, Any] | None:
        """Greedy episodes where they are wanted; otherwise the newest evaluation beside training, else its last episodes."""
        if turn.episodes:
            self._heartbeat.begin(STARTING, in_env=True)
            scores, _ = evaluate(
                str(folder.path), episodes=turn.episodes, seed=turn.seed, tell=lambda _: self._heartbeat.between()
            )
            return {"mean": float(scores.mean), "returns": [float(each) for each in scores.returns]}
        for row in newest_first(folder.metrics):
            for column in ("eval/mean_reward", "rollout/ep_rew_mean"):
                if isinstance(row.get(column), int | float):
                    return {"mean": float(row[column]), "returns": []}
        return None


def _made_with(experiment: Experiment) -> str:
    """Settings of its environment, as one word."""
    return f"{experiment.env.model_dump_json()} {experiment.curriculum}"


def _starting_point(folder: RunFolder, experiment: Experiment) -> Checkpoint | None:
    """Where the member goes on. One that never came to a checkpoint begins again in an empty folder."""
    store = CheckpointStore(folder.checkpoints, keep=experiment.checkpoint.keep)
    if store.versions():
        return store.latest()
    if folder.path.exists():
        shutil.rmtree(folder.path)
    make_folder(folder.path)
    return None


def _already(folder: RunFolder, start: Checkpoint | None, turn: Turn) -> tuple[str, int, int] | None:
    """How the turn ended, where only the word of it was lost: its last checkpoint is there."""
    if start is None:
        return None
    last, steps = ended(folder), int(start.meta["steps"])
    if str(last["reason"]).startswith("stop.") and last["step"] == steps:
        return str(last["reason"]), steps, start.version
    if turn.until is not None and steps >= turn.until:
        return f"{ENDED} at {turn.until:,} steps", steps, start.version
    return None


class SlotLauncher(InlineLauncher):
    """One member's workers in the process of its slot, until the turn is over."""

    def __init__(
        self, program: Program, start: Checkpoint | None, checkpoints: Path, heartbeat: Heartbeat, shelf: EnvShelf,
        connection: Connection, turn: Turn,
    ) -> None:  # fmt: skip
        super().__init__(program, start, checkpoints, heartbeat, shelf)
        self._connection, self._turn = connection, turn
        self.seconds = 0.0
        """That it has trained."""

    def run(self, conductor: Conductor) -> str | None:
        """Order the settings that must be in use, then train; the values that are read back must be those."""
        began = time.monotonic()
        guide = TurnConductor(conductor, self._heartbeat, self._connection, self._turn)
        for order in _orders(self._program, self._turn.read_back):
            conductor.controller.todo.append(Give("trainer", order))
        try:
            return super().run(guide)
        finally:
            self.seconds += time.monotonic() - began


class TurnConductor:
    """The run's conductor, with an eye on the turn: where it ends, who wants the slot back, which settings are in use."""

    def __init__(self, run: Conductor, heartbeat: Heartbeat, connection: Connection, turn: Turn) -> None:
        self._run, self._heartbeat, self._connection, self._turn = run, heartbeat, connection, turn
        self.controller, self.doors = run.controller, run.doors
        self._wanted = dict(turn.read_back)
        self._leaves = False
        self._reported = 0.0

    def receive(self, message: Message) -> None:
        """A worker said something."""
        self._run.receive(message)
        controller, until = self.controller, self._turn.until
        if self._wanted and controller.settings:
            self._check_settings()
        if until is not None and controller.counters.steps >= until:
            controller.stop(f"{ENDED} at {until:,} steps")
        if self._leaves and isinstance(message, Updated):
            controller.stop(WANTED)

    def listen(self) -> None:
        """Take orders, of people and of who gives the turns. Who is to leave does so between two rounds: there it can go on."""
        self._heartbeat.rest()
        self._run.listen()
        if self._connection.poll() and from_bytes(self._connection.recv_bytes()).get("leave") == self._turn.member:
            self._leaves = True
        if self._leaves and self.controller.paused:
            self.controller.stop(WANTED)
        now = time.monotonic()
        if now - self._reported >= REPORT:
            self._reported = now
            counters = self.controller.counters
            at = {"steps": counters.steps, "version": counters.update, "return": self.controller.recent_return}
            self._connection.send_bytes(to_bytes(at=at))

    def answer(self) -> None:
        """Take orders of people."""
        self._heartbeat.rest()
        self._run.answer()

    def _check_settings(self) -> None:
        """What algorithms say that they use must be what was ordered, to the bit."""
        for policy, used in self.controller.settings.items():
            for key, wanted in self._wanted.items():
                if used.get(key) != wanted:
                    raise ShoalError(
                        f"algorithm.{key} = {wanted!r} was ordered, and {policy} uses {used.get(key)!r}: the member is stopped"
                    )
        if set(self.controller.settings) >= set(self.controller.clocks):
            self._wanted = {}


def _orders(program: Program, values: dict[str, Any]) -> Iterator[Reconfigure]:
    if values:
        for policy in program.learners:
            yield Reconfigure(policy, dict(values))
