"""One run from start to end: folder, program, launcher, controller, checkpoints, outcome."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from shoal.api.evaluation import Scores
from shoal.api.experiment import ActorRange, Experiment
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from shoal.evaluation.evaluator import Evaluator
from shoal.launchers.inline import InlineLauncher
from shoal.launchers.launcher import Launcher
from shoal.monitoring.logs import LOG, log_to
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.sinks import FanOut, JsonlSink, Sink, TensorBoardSink
from shoal.monitoring.terminal import TerminalView
from shoal.program.contents import about, files_of, has_replay
from shoal.program.players import make_evaluator, make_random_evaluator
from shoal.program.probe import choose_placement
from shoal.program.program import Program, expand
from shoal.program.stages import check_stages
from shoal.runs import provenance
from shoal.runs.panel import Panel
from shoal.streams.sample import Account
from shoal.workers.controller import Controller, Surroundings

LAUNCHERS = ("inline", "local", "ray")
BEST = "best"
"""The tag of the version with the best score."""
RANDOM_EPISODES = 20
"""Played at random before a run of several agents, for comparison."""


class View(Sink, Protocol):
    """A sink that is also told what is worth a line."""

    def note(self, text: str) -> None:
        """A line that stays."""


@dataclass(frozen=True)
class Cluster:
    """Which Ray runs it, for `--on ray`."""

    address: str | None = None
    """`auto`, or HOST:PORT; None: one of our own on this machine, which ends with the run."""
    working_dir: str | None = None
    """The folder with the user's own code, if the machines do not share it."""
    detach: bool = False
    """Return once the run has begun."""


MakeLauncher = Callable[[Program, "Checkpoint | None", RunFolder], Launcher]


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    reason: str
    steps: int
    version: int
    seconds: float
    scores: Scores | None
    """The last confirmation, if there was one."""
    interrupted: bool


def train(
    experiment: Experiment,
    *,
    trial: str | None = None,
    root: Path | str = "runs",
    on: str = "local",
    quiet: bool = False,
    cluster: Cluster | None = None,
) -> Outcome:
    """Start a run and train until a stop rule ends it. Settings that cannot work are found before anything is written."""
    _prepare(on)
    if on == "ray":
        from shoal.runs.ray import driver

        return driver.train(experiment, cluster or Cluster(), trial=trial, root=Path(root), quiet=quiet)
    if isinstance(experiment.placement.actors, ActorRange):
        raise InputError(f"placement.actors = {{min, max}} is for --on ray: give one number for --on {on}")
    check_stages(experiment)
    experiment, why = choose_placement(experiment) if on == "local" else (experiment, None)
    program = expand(experiment, exact=on == "inline")
    folder = RunFolder.create(Path(root), experiment.name, trial)
    return _train(folder, program, None, on, quiet, why)


def resume(
    name: str,
    trial: str,
    *,
    overrides: list[str] | None = None,
    root: Path | str = "runs",
    on: str = "local",
    quiet: bool = False,
    cluster: Cluster | None = None,
) -> Outcome:
    """Go on with a run from its last whole checkpoint, under its own settings with `overrides` on top."""
    _prepare(on)
    folder = RunFolder.open(Path(root), name, trial)
    experiment = Experiment.parse(folder.read_config(overrides))
    if on == "ray":
        from shoal.runs.ray import driver

        return driver.go_on(folder, experiment, cluster or Cluster(), quiet=quiet)
    check_stages(experiment)
    start = CheckpointStore(folder.checkpoints, keep=experiment.checkpoint.keep).latest()
    return _train(folder, expand(experiment, exact=on == "inline"), start, on, quiet)


def check_launcher(on: str) -> None:
    """There is one of that name."""
    if on not in LAUNCHERS:
        raise InputError(f"--on {on}: there is no such launcher; choose from: {', '.join(LAUNCHERS)}")


def _prepare(on: str) -> None:
    check_launcher(on)
    torch.set_num_threads(1)  # equal bits everywhere, and on small networks faster than two


def _train(
    folder: RunFolder, program: Program, start: Checkpoint | None, on: str, quiet: bool, why: str | None = None
) -> Outcome:
    view = None if quiet else TerminalView(program.experiment.name, folder.path, program.experiment.stop)

    def launcher(program: Program, start: Checkpoint | None, folder: RunFolder) -> Launcher:
        return _launcher(on, program, start, folder)

    return run_in(folder, program, start, launcher, on=on, view=view, argv=sys.argv, why=why)


def run_in(
    folder: RunFolder, program: Program, start: Checkpoint | None, launcher: MakeLauncher, *,
    on: str, view: View | None, argv: list[str], why: str | None,
) -> Outcome:  # fmt: skip
    """One run in its folder, with whatever launcher; `why`: the first thing to say."""
    with ExitStack() as stack:
        folder.lock()
        stack.callback(folder.unlock)
        stack.enter_context(log_to(folder.logs, on))
        # Workers first: a checkpoint that does not fit must not cost the run its settings.
        workers = stack.enter_context(closing(launcher(program, start, folder)))
        folder.write_config(program.experiment.model_dump())
        provenance.write(folder, argv, program.experiment.seed, on)
        folder.event("start", version=start.version if start else 0, resumed=start is not None)
        run = _Run(folder, program, workers, start, stack, view)
        if why is not None:
            run.note(why)
        return run.go()


def _launcher(on: str, program: Program, start: Checkpoint | None, folder: RunFolder) -> Launcher:
    if on == "inline" or program.one_process:
        return InlineLauncher(program, start, folder.checkpoints)
    from shoal.launchers.local import LocalLauncher

    return LocalLauncher(program, start, folder)


class _Run(Surroundings):
    """The pieces of a run, and what its controller asks for."""

    def __init__(
        self, folder: RunFolder, program: Program, launcher: Launcher, start: Checkpoint | None, stack: ExitStack,
        view: View | None,
    ) -> None:  # fmt: skip
        self._folder, self._program, self._launcher, self._stack = folder, program, launcher, stack
        self._evaluator: Evaluator | None = None
        experiment = program.experiment
        self._store = CheckpointStore(folder.checkpoints, keep=experiment.checkpoint.keep)
        step = start.meta["steps"] if start is not None else None
        sinks: list[Sink] = [JsonlSink(folder.metrics, step)]
        self._board = TensorBoardSink(folder.tensorboard, step) if experiment.log.tensorboard else None
        if self._board is not None:
            sinks.append(self._board)
        self._view = view
        if view is not None:
            sinks.append(view)
        sink = stack.enter_context(closing(FanOut(sinks)))
        self._controller = Controller(experiment, list(program.policies), sink, self, game_return=program.game_return)
        self._panel = stack.enter_context(closing(Panel(folder, self._obey)))
        self._controller.doors.append(self._panel)
        self._hurried = False
        self._due = stack.enter_context(ExitStack())
        if start is not None:
            self._controller.scoreboard.recall(folder.read_events())
            replay = has_replay(program, start) and launcher.goes_on is not None
            self._controller.load_state_dict(start.meta["controller"], replay=replay)
            self._say_what_begins_anew(start, replay=replay)

    def _say_what_begins_anew(self, start: Checkpoint, *, replay: bool) -> None:
        """A resumed run is not always the one that was left."""
        for tag in self._store.drop_newer(start.version):
            self.note(f"the tag '{tag}' is gone: its checkpoint was newer than {start.version}, where the run goes on")
        if any(plan.sequences for plan in self._program.policies.values()) and not replay:
            self.note("replay starts empty, and warms up again: the checkpoint does not hold what fits here")
        if not self._launcher.goes_on:
            self.note("open episodes begin anew: the checkpoint does not hold them as they were")
        for version, damage in start.skipped:
            self.note(f"checkpoint {version} is damaged and was passed over: {damage}")

    def go(self) -> Outcome:
        """Run, save, say how it ended."""
        self._measure_random_play()
        caught = self._launcher.run(self._controller)
        self._controller.save()
        if caught is None and self._controller.judge_last:
            self._judge_last()
        self._controller.tell_last_score()
        reason, counters = self._controller.reason, self._controller.counters
        assert reason is not None
        LOG.info(reason)
        self._say_bottleneck()
        if (cost := self._controller.scoreboard.line()) is not None:
            self.note(cost)
        self._folder.event("stop", reason=reason, **dataclasses.asdict(counters))
        return Outcome(
            self._folder.path, reason, counters.steps, counters.update, counters.elapsed,
            self._controller.confirmed, caught is not None,
        )  # fmt: skip

    def _judge_last(self) -> None:
        """Training is over, so it can be waited for; another order to stop ends that."""
        controller, last = self._controller, self._controller.counters.update
        if controller.scoreboard.due < last:
            controller.order_evaluation()
        self._launcher.judge(
            controller, lambda: controller.scoreboard.judged >= last or self._hurried or not controller.judge_last
        )

    def _measure_random_play(self) -> None:
        """Where there are several agents, a return says little until it is seen beside that of random play."""
        agents = sum(plan.role.count for plan in self._program.players.values())
        if agents < 2:
            return
        with closing(make_random_evaluator(self._program, RANDOM_EPISODES)) as evaluator:
            scores = evaluator.evaluate(RANDOM_EPISODES, seed=derive_seed(self._program.experiment.seed, "random play"))
        team = {"baseline/random_team_return": scores.mean, "baseline/random_agent_return": scores.mean / agents}
        self._controller.baseline = team
        self._folder.event("random play", **team, episodes=RANDOM_EPISODES)

    def _say_bottleneck(self) -> None:
        one_process = isinstance(self._launcher, InlineLauncher)
        line = self._controller.time.line(max_lag=self._program.max_lag, one_process=one_process)
        if line is not None:
            self.note(line)

    # ------------------------------------------------------------ what the panel asks for

    def _obey(self, order: str) -> dict[str, Any]:
        controller = self._controller
        if order == "status":
            return self._status()
        if order == "stop":
            self._hurried = controller.reason is not None
            controller.stop("stopped by order")
        elif order in ("SIGINT", "SIGTERM"):  # caught by a driver elsewhere
            self._hurried = controller.reason is not None
            controller.stop(f"interrupted by {order}")
        elif order in ("pause", "unpause"):
            controller.paused = order == "pause"
        else:
            raise InputError(f"there is no order '{order}': choose from status, pause, unpause, stop")
        self._folder.event("order", order=order)
        return {"state": self._state}

    @property
    def _state(self) -> str:
        if self._controller.reason is not None:
            return "stopping"
        return "paused" if self._controller.paused else "running"

    def _status(self) -> dict[str, Any]:
        controller, account = self._controller, self._launcher.accounts()
        shares = controller.time.shares()
        return {
            "run": self._folder.name, "pid": os.getpid(), "state": self._state,
            "step": controller.counters.steps, "update": controller.counters.update,
            "elapsed": controller.elapsed, "fps": controller.fps, "return": controller.recent_return,
            "stop": self._program.experiment.stop.model_dump(exclude_none=True),
            "workers": [{**shares.get(worker["kind"], {}), **worker} for worker in self._launcher.workers()],
            "rows": account.named, "replay": account.replayed,
            "judging": controller.scoreboard.judging, "judged": controller.scoreboard.newest,
        }  # fmt: skip

    # ------------------------------------------------------------ what the controller asks for

    def quiet(self) -> None:
        self._launcher.quiet()

    def save(self) -> None:
        tensors = self._launcher.states()
        counters = self._controller.counters
        contents = self._launcher.contents(counters.update)
        meta = {"steps": counters.steps, "controller": self._controller.state_dict()}
        self._store.save(
            counters.update, tensors, {**meta, **about(self._program, contents)}, extras=files_of(contents)
        )

    def evaluate(self, version: int) -> None:
        """It stays until it is begun, or a newer one is due."""
        self._due.close()
        self._due.enter_context(self._store.hold(version))
        self._launcher.evaluate(version)

    def judged(self, event: dict[str, Any]) -> None:
        self._folder.event("evaluation", **event)
        if event["video"] is not None and self._board is not None:
            self._board.animate(event["steps"], (self._folder.videos / event["video"]).with_suffix(".gif"))
        if event["best"]:
            try:
                self._store.tag(BEST, event["version"])
            except InputError as error:
                self.note(f"version {event['version']} is the best so far, and cannot be kept: {error}")

    def enter_stage(self, stage: int) -> None:
        self._launcher.enter_stage(stage)
        self._folder.event("stage", stage=stage, steps=self._controller.counters.steps)

    def confirm(self) -> Scores:
        """On seeds that no training episode uses."""
        experiment = self._program.experiment
        if self._evaluator is None:
            evaluator = make_evaluator(self._program, self._launcher.mailboxes, experiment.stop.episodes)
            self._evaluator = self._stack.enter_context(closing(evaluator))
        seed = derive_seed(experiment.seed, "confirmation", counter=self._controller.counters.update)
        return self._evaluator.evaluate(experiment.stop.episodes, seed=seed)

    def accounts(self) -> Account:
        return self._launcher.accounts()

    def listen(self) -> None:
        self._panel.poll()

    def note(self, text: str) -> None:
        LOG.info(text)
        self._folder.event("note", text=text)
        if self._view is not None:
            self._view.note(text)
