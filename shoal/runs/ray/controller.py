"""The run itself, as a Ray actor. It needs no driver: one may leave and another come. If it dies, Ray starts it again, and it goes
on from the last checkpoint."""

from __future__ import annotations

import os
import platform
import shutil
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ray
import torch

from shoal.api.experiment import Experiment
from shoal.api.program import Program
from shoal.base.errors import InputError, ShoalError
from shoal.base.faults import VARIABLE
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from shoal.launchers.ray.launcher import Hear, RayLauncher
from shoal.launchers.ray.private import check_session
from shoal.monitoring.logs import LOG
from shoal.monitoring.run_folder import RunFolder, SupersededError
from shoal.monitoring.sinks import Row
from shoal.program.expand import expand
from shoal.runs.facts import unused_settings
from shoal.runs.outcome import Outcome
from shoal.runs.panel import ask
from shoal.runs.run import run_in
from shoal.streams.transports.ray.agent import MachineAgent
from shoal.streams.transports.ray.messages import Message, Peer, Reported

LINGER = 20.0
"""Seconds that the actor of an ended run waits for somebody to ask how it ended."""
TAKE_OVER = 180.0
"""Seconds that a controller which was started again waits for the last one, if that lives on out of reach: Ray ends it after a
minute, and a shared file system frees its lock after one and a half."""
GIVE_WAY = 0.5
"""Seconds between two looks whether a controller was started elsewhere."""
PAUSE = 0.2
"""Seconds that a question for news may wait for some."""


class RunOrder(NamedTuple):
    """What to run."""

    settings: dict[str, Any]
    folder: str
    resume: bool
    argv: list[str]
    faults: str
    """To be made on purpose, as SHOAL_FAULT says it."""
    variables: dict[str, str] = {}
    """What the environment of the driver says to W&B."""


class Feed:
    """A view that keeps what it is shown, for whoever asks."""

    def __init__(self) -> None:
        self._items: list[tuple[str, Any]] = []
        self._more = threading.Condition()

    def write(self, row: Row) -> None:
        """A row of numbers; one that nobody asked for yet gives way to the next."""
        with self._more:
            if self._items and self._items[-1][0] == "row":
                self._items[-1] = ("row", row)  # whoever has seen it already sees it once more
            else:
                self._items.append(("row", row))
            self._more.notify_all()

    def note(self, text: str) -> None:
        """A line."""
        self.add("note", text)

    def show(self, title: str, rows: list[dict[str, Any]]) -> None:
        """Not from here: `shoal status` has it."""

    def state(self, word: str, reason: str | None = None) -> None:
        """What the run does now."""
        self.add("state", (word, reason))

    def add(self, kind: str, what: Any) -> None:
        """Something else."""
        with self._more:
            self._items.append((kind, what))
            self._more.notify_all()

    def close(self, summary: str = "") -> None:
        """Nothing is kept open."""

    def since(self, number: int, timeout: float) -> tuple[int, list[tuple[str, Any]]]:
        """What came after `number`, and the number to ask with next; rows may come twice."""
        with self._more:
            self._more.wait_for(lambda: len(self._items) > number, timeout)
            seen = len(self._items) - (bool(self._items) and self._items[-1][0] == "row")
            return max(number, seen), self._items[number:]


def check_reachable(folder: Path) -> None:
    """The controller writes the run's folder: it has to live on a machine that has it."""
    if not folder.is_dir():
        raise InputError(
            f"the run's folder {folder} cannot be reached from {platform.node()}, where its controller was placed: "
            "start the run on a machine of the cluster, or in a folder that its machines share"
        )


class RayController(Peer):
    """`news` and `obey` are for drivers, `receive` for the agents of other machines."""

    def __init__(self, order: RunOrder) -> None:
        self._order, self._folder = order, RunFolder(Path(order.folder))
        os.environ.update({VARIABLE: order.faults, **order.variables})
        self._again = ray.get_runtime_context().was_current_actor_reconstructed
        self._feed = Feed()
        self._ended = False
        self._hear: Hear
        self._agent: MachineAgent
        self._heard: dict[str, int] = {}
        threading.Thread(target=self._live, name="run", daemon=True).start()

    # ------------------------------------------------------------ the run

    def _live(self) -> None:
        try:
            self._feed.add("end", _as_dict(self._train()))
        except ShoalError as error:
            self._feed.add("failed", (error.exit_code, str(error)))
        except BaseException as error:
            LOG.exception("the run failed")
            self._feed.add("failed", (1, f"{type(error).__name__}: {error}: see {self._folder.logs}"))
        self._ended = True
        threading.Thread(target=self._leave, daemon=True).start()

    def _leave(self) -> None:
        time.sleep(LINGER)
        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)

    def _train(self) -> Outcome:
        check_session()
        check_reachable(self._folder.path)
        torch.set_num_threads(1)
        program = expand(Experiment.parse(self._order.settings), exact=False)
        self._folder.lock(ray.get_runtime_context().get_actor_id(), TAKE_OVER)
        threading.Thread(target=self._give_way, daemon=True).start()
        try:
            return run_in(
                self._folder, program, self._start(program), self._launcher,
                on="ray", view=self._feed, argv=self._order.argv, notes=unused_settings(program.experiment, "ray"),
            )  # fmt: skip
        finally:
            self._folder.unlock()

    def _give_way(self) -> None:
        """Ray gave this machine up and started the controller elsewhere: let go of the folder at once, whatever waits for whom."""
        while not self._ended:
            time.sleep(GIVE_WAY)
            try:
                self._folder.check_writer()
            except SupersededError as error:
                LOG.warning("%s", error)
                os._exit(1)

    def _start(self, program: Program) -> Checkpoint | None:
        store = CheckpointStore(self._folder.checkpoints, keep=program.experiment.checkpoint.keep)
        if not self._again:
            return store.latest() if self._order.resume else None
        if store.versions():
            self._feed.note("the controller died and was started again: it goes on from the last checkpoint")
            return store.latest()
        self._feed.note("the controller died before the first checkpoint: the run begins anew")
        self._folder.metrics.unlink(missing_ok=True)
        shutil.rmtree(self._folder.tensorboard, ignore_errors=True)
        return None

    def _launcher(self, program: Program, start: Checkpoint | None, folder: RunFolder) -> RayLauncher:
        launcher = RayLauncher(program, start, folder, ray.get_runtime_context().current_actor, self._listen)
        self._feed.add("begun", None)
        return launcher

    def _listen(self, hear: Hear, agent: MachineAgent) -> None:
        self._hear, self._agent = hear, agent

    # ------------------------------------------------------------ what others call

    @ray.method(concurrency_group="agents")
    def receive(self, sender: str, messages: list[Message]) -> None:
        """Reports are for the run, and passed over if they come twice; all else is for the agent that lives in this process."""
        for message in messages:
            if not isinstance(message, Reported):
                self._agent.receive(sender, [message])
            elif message.number > self._heard.get(sender, 0):
                self._heard[sender] = message.number
                self._hear(message.batch)

    @ray.method(concurrency_group="agents")
    def receive_version(self, sender: str, box: str, number: int, packed: np.ndarray, keep: list[int]) -> None:
        """For the agent."""
        self._agent.receive_version(sender, box, number, packed, keep)

    @ray.method(concurrency_group="drivers")
    def news(self, after: int) -> tuple[int, list[tuple[str, Any]]]:
        """What happened since; `begun`, `row`, `note`, `state`, `end`, `failed`."""
        return self._feed.since(after, PAUSE)

    @ray.method(concurrency_group="drivers")
    def obey(self, order: str) -> dict[str, Any]:
        """`status`, `stop`, `pause`, `unpause`: as at the run's own panel."""
        return ask(self._folder, order)

    @ray.method(concurrency_group="drivers")
    def ended(self) -> bool:
        """The run is over: only its outcome is kept for a while."""
        return self._ended


def _as_dict(outcome: Outcome) -> dict[str, Any]:
    scores = None if outcome.scores is None else asdict(outcome.scores)
    return {**vars(outcome), "folder": str(outcome.folder), "scores": scores}
