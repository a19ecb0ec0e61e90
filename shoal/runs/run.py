"""One run in its folder: what workers say goes in, and what the controller decides is carried out, until a stop rule ends it."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from shoal.api.callback import Callback
from shoal.api.messages import Concluded, Confirmed, Message, Shown
from shoal.api.orders import Conclude, Evaluate, Heard, Order, Reconfigure, SetStage
from shoal.api.program import Program
from shoal.base.errors import InputError, ShoalError, one_line
from shoal.base.files import disk_trouble
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from shoal.checkpoints.worker_state import about, files_of, has_replay, steps_of, versions_of
from shoal.launchers.inline import InlineLauncher
from shoal.launchers.launcher import HangsError, Launcher
from shoal.monitoring.jsonl import newest_first
from shoal.monitoring.logs import LOG, log_to
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.sinks import FanOut, JsonlSink, Sink, TensorBoardSink
from shoal.runs import provenance
from shoal.runs.answers import Answers
from shoal.runs.baseline import RANDOM_EPISODES, random_returns
from shoal.runs.callbacks import Callbacks
from shoal.runs.exporter import RunExporter
from shoal.runs.outcome import Outcome
from shoal.runs.panel import Panel
from shoal.runs.resumed import begins_anew
from shoal.runs.watchers import Watchers
from shoal.streams import names
from shoal.streams.control import pieces_of
from shoal.workers.controller import Controller
from shoal.workers.decisions import Confirm, Decision, EnterStage, Give, KeepScore, SaveNow, Say, WriteRow

BEST = "best"
"""The tag of the version with the best score."""


class View(Sink, Protocol):
    """A sink that is also told what is worth a line."""

    def note(self, text: str) -> None:
        """A line that stays."""

    def show(self, title: str, rows: list[dict[str, Any]]) -> None:
        """A table that a worker wants people to see."""

    def state(self, word: str, reason: str | None = None) -> None:
        """What the run does now, in a word; with a `reason`: it ended."""


Begun = Callable[[Path], None]
MakeLauncher = Callable[[Program, "Checkpoint | None", RunFolder], Launcher]


def run_in(
    folder: RunFolder, program: Program, start: Checkpoint | None, launcher: MakeLauncher, *,
    on: str, view: View | None, argv: list[str], notes: list[str], callbacks: Sequence[Callback] = (),
    here: Path | None = None, begun: Begun | None = None, turn: bool = False,
) -> Outcome:  # fmt: skip
    """One run in its folder, with whatever launcher; `notes`: the first lines to say; `here`: where it was started; `begun` is
    called once the run takes orders; `turn`: of several, whose first one has written where the run came from. Commands of
    `log.notify` are not told of turns, but of the population."""
    log = program.experiment.log
    with disk_trouble(folder.path), ExitStack() as stack:
        folder.lock()
        stack.callback(folder.unlock)
        stack.enter_context(_in_one_line(folder, on))
        stack.enter_context(disk_trouble(folder.path))
        stack.enter_context(log_to(folder.logs, on))
        watchers = stack.enter_context(Watchers(folder, log.model_copy(update={"notify": []}) if turn else log))
        # Workers first: a checkpoint that does not fit must not cost the run its settings.
        workers = stack.enter_context(closing(launcher(program, start, folder)))
        folder.write_config(program.experiment.model_dump())
        if not (turn and folder.provenance.exists()):
            provenance.write(folder, argv, program.experiment.seed, on, here)
        folder.event("start", version=start.version if start else 0, resumed=start is not None)
        run = _Run(folder, program, workers, start, stack, view, callbacks, watchers)
        for note in [*notes, *(text for name in program.learners for text in program.policies[name].facts.notes)]:
            run.note(note)
        if begun is not None:
            begun(folder.path)
        outcome = run.go()
    if run.callback_error is not None:  # as it is: whoever wrote it called us
        raise run.callback_error
    return outcome


@contextmanager
def _in_one_line(folder: RunFolder, on: str) -> Iterator[None]:
    """What nobody expected, for example in a model or an algorithm of the user's own: its traceback is in the log."""
    try:
        yield
    except ShoalError:
        raise
    except Exception as error:
        raise ShoalError(f"{one_line(error)}: its traceback is in {folder.logs / f'{on}.log'}") from error


class _Run:
    """The pieces of a run. It hears what workers say, and carries out what the controller decides."""

    def __init__(
        self, folder: RunFolder, program: Program, launcher: Launcher, start: Checkpoint | None, stack: ExitStack,
        view: View | None, callbacks: Sequence[Callback], watchers: Watchers,
    ) -> None:  # fmt: skip
        self._folder, self._program, self._launcher, self._stack = folder, program, launcher, stack
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
        self.controller = Controller(experiment, list(program.learners), game_return=program.game_return)
        exporter = RunExporter(folder, program, self.controller) if experiment.log.prometheus is not None else None
        sinks += [exporter] if exporter is not None else []
        self._callbacks = Callbacks(callbacks, self.controller.stop)
        self._sink = stack.enter_context(closing(FanOut([*sinks, self._callbacks])))
        self._answers = stack.enter_context(
            closing(Answers(folder, program, launcher, self.controller, lambda: self._state))
        )
        self._panel = stack.enter_context(closing(Panel(folder, self._answers.obey)))
        self._watchers = watchers
        self.doors: list[Any] = [self._panel, *watchers.begin(self.note, self.controller.stop)]
        self._listeners = [spec for spec in program.workers if spec.hears]
        self._confirming = False
        self._concluded: set[str] = set()
        self._postponed: deque[Message] = deque()
        self._shown_state = ""
        self._held = stack.enter_context(ExitStack())
        """Checkpoints that are being evaluated, or are about to be: one of them may be the best."""
        if start is not None:
            self.controller.scoreboard.recall(folder.read_events())
            replay = has_replay(program, start) and launcher.goes_on is not None
            versions, steps = versions_of(program, start), steps_of(program, start)
            self.controller.load_state_dict(start.meta["controller"], versions, steps, replay=replay)
            for line in begins_anew(program, start, self._store, goes_on=launcher.goes_on, replay=replay):
                self.note(line)
            self._launcher.order("", SetStage(self.controller.stage))
        if exporter is not None:
            self.note(exporter.note)

    def go(self) -> Outcome:
        """Run, save, say how it ended."""
        if self.controller.reason is not None:  # it was resumed, and needs nothing more
            self._say_it_is_over(self.controller.reason)
        self._measure_random_play()
        caught = self._launcher.run(self)
        if caught is None and self.controller.in_time:
            self._conclude()
        self._save_last()
        if caught is None and self.controller.evaluate_last:
            self._evaluate_last()
        if self.controller.scoreboard.untold:  # a score that came after the last row has one of its own
            self._write_row()
        reason, counters = self.controller.reason, self.controller.counters
        assert reason is not None
        LOG.info(reason)
        if self._view is not None:  # the rules that end a run are named stop.something
            self._view.state("reached" if reason.startswith("stop.") else reason.split()[0], reason)
        self._say_bottleneck()
        if (cost := self.controller.scoreboard.line()) is not None:
            self.note(cost)
        self._folder.event("stop", reason=reason, **dataclasses.asdict(counters))
        self._watchers.end(reason, counters.steps, counters.update)
        return Outcome(
            self._folder.path, reason, counters.steps, counters.update, counters.elapsed,
            self.controller.confirmed, caught is not None,
        )  # fmt: skip

    @property
    def callback_error(self) -> Exception | None:
        """What a callback raised, if one did: the run has ended in order."""
        return self._callbacks.error

    def _say_it_is_over(self, reason: str) -> None:
        self.note(f"{reason.removesuffix(' reached')} was reached before: raise {reason.split()[0]} to go on")
        last = next(newest_first(self._folder.metrics), None)
        if self._view is not None and last is not None:
            self._view.write(last)

    def _conclude(self) -> None:
        """Workers do what is left to do for the result of the run, before that is saved; another order to stop ends it."""
        for spec in (spec for spec in self._program.workers if spec.concludes):
            self._launcher.order(spec.name, Conclude())
            self._launcher.run_only(self, spec.kind, partial(self._has_concluded, spec.name))

    def _has_concluded(self, worker: str) -> bool:
        return worker in self._concluded or self._answers.hurried or not self.controller.in_time

    def _evaluate_last(self) -> None:
        """Training is over, so it can be waited for; another order to stop ends that."""
        controller, last = self.controller, self.controller.counters.update
        if controller.scoreboard.due < last:
            self._order_evaluation()

        def done() -> bool:
            return controller.scoreboard.evaluated >= last or self._answers.hurried or not controller.evaluate_last

        self._launcher.run_only(self, "evaluation", done)

    def _measure_random_play(self) -> None:
        """Where there are several agents, a return says little until it is seen beside that of random play."""
        alone = isinstance(self._launcher, InlineLauncher)
        if (found := random_returns(self._program, self.answer, supervised=not alone)) is not None:
            self.controller.baseline = found
            self._folder.event("random play", **found, episodes=RANDOM_EPISODES)

    def _say_bottleneck(self) -> None:
        one_process = isinstance(self._launcher, InlineLauncher)
        line = self.controller.time.line(max_lag=self._program.max_lag, one_process=one_process)
        if line is not None:
            self.note(line)

    # ------------------------------------------------------------ what workers say, what the controller decides

    def receive(self, message: Message) -> None:
        """A worker said something: those who listen to it hear it, and the controller decides. A confirmation goes first."""
        if self._confirming and not isinstance(message, Confirmed):
            self._postponed.append(message)
            return
        for spec in self._listeners:
            if isinstance(message, spec.hears):
                for piece in pieces_of(message):
                    self._launcher.order(spec.name, Heard(piece))
        if isinstance(message, Confirmed):
            self._confirming = self._confirming and message.version != self.controller.counters.update
        if isinstance(message, Concluded):
            self._concluded.add(message.worker)
        if isinstance(message, Shown) and self._view is not None:
            self._view.show(message.title, message.rows)
        self.controller.receive(message)
        self._carry_out()

    def listen(self) -> None:
        """Take orders of people, if there are any."""
        self.answer()
        self._carry_out()

    def answer(self) -> None:
        """Take orders of people; what is decided waits: something else is being carried out."""
        self._panel.poll()
        self._watchers.look(self.controller.counters.steps, self.controller.counters.update, self._state)

    def _carry_out(self) -> None:
        while self.controller.todo:
            self._do(self.controller.todo.popleft())
        self._show_state()

    def _do(self, decision: Decision) -> None:
        match decision:
            case Confirm():
                self._confirm()
            case WriteRow():
                self._write_row()
            case SaveNow(evaluate):
                self._save_now(evaluate=evaluate)
            case KeepScore(event):
                self._keep_score(event)
            case EnterStage(stage):
                self._launcher.order("", SetStage(stage))
                self._folder.event("stage", stage=stage, steps=self.controller.counters.steps)
            case Give(to, order):
                self._give(to, order)
            case Say(text, event, facts):
                self.note(text)
                if event:
                    self._folder.event(event, **facts)

    def _write_row(self) -> None:
        self._folder.check_writer()
        self._sink.write(self.controller.row(self._launcher.accounts()))

    def _save_now(self, *, evaluate: bool) -> None:
        """In the middle of the run. If it is to end before the trainers rest, that is when it is saved."""
        try:
            if not self._launcher.quiet():
                return
            self._save()
        except HangsError:
            return
        if evaluate:
            self._order_evaluation()

    def _save_last(self) -> None:
        """Where somebody hangs, the newest checkpoint is what there is."""
        try:
            self._save()
        except HangsError as error:
            steps, version, kept = self.controller.counters.steps, self.controller.counters.update, self.controller.kept
            where = f"the newest is version {kept.updates:,}" if self._store.versions() else "there is none"
            lost = f"{steps - kept.steps:,} steps and {version - kept.updates:,} updates are lost"
            self.note(f"no last checkpoint: {error}; {where}: {lost}")

    def _save(self) -> None:
        """Write a checkpoint of this moment."""
        controller, counters = self.controller, self.controller.counters
        snapshot = self._launcher.save(counters.update)
        clocks = controller.clocks.items()
        meta = {
            "steps": counters.steps, "controller": controller.state_dict(self._launcher.accounts()),
            "versions": {policy: clock.version for policy, clock in clocks},
            "policy_steps": {policy: clock.steps for policy, clock in clocks},
            **about(self._program, snapshot.states),
        }  # fmt: skip
        self._folder.check_writer()
        self._store.save(counters.update, snapshot.learned, meta, extras=files_of(snapshot.states))
        controller.saved()
        self._callbacks.saved(counters.update, counters.steps, self._store.path(counters.update))

    def _order_evaluation(self) -> None:
        """The version that was just saved: its parameters travel, and the checkpoint stays until its score is heard."""
        controller, version = self.controller, self.controller.counters.update
        self._held.enter_context(self._store.hold(version))
        self._send_weights(version)
        controller.order_evaluation()
        self._launcher.order("evaluation", Evaluate(version, controller.counters.steps, controller.stage))

    def _keep_score(self, event: dict[str, Any]) -> None:
        self._folder.event("evaluation", **event)
        if event["video"] is not None and self._board is not None:
            self._board.animate(event["steps"], (self._folder.videos / event["video"]).with_suffix(".gif"))
        if event["best"]:
            try:
                self._store.tag(BEST, event["version"])
            except InputError as error:
                self.note(f"version {event['version']} is the best so far, and cannot be kept: {error}")
        if self.controller.scoreboard.due <= event["version"]:
            self._held.close()
        self._callbacks.evaluated(event)

    def _send_weights(self, version: int) -> None:
        for policy, mailbox in self._launcher.mailboxes.items():
            block = np.empty(self._program.policies[policy].facts.nbytes, np.uint8)
            mailbox.read(mailbox.latest(), block)  # trainers rest: there is no newer one
            self._launcher.publish(names.evaluated(policy), version, block)

    def _confirm(self) -> None:
        """Greedy episodes of the newest version. Trainers rest, so that the run ends with the version that was confirmed; people
        are answered, and a run that is to end meanwhile ends."""
        controller = self.controller
        if not self._launcher.quiet():
            controller.not_confirmed()
            return
        self._send_weights(controller.counters.update)
        self._launcher.order("confirmation", Evaluate(controller.counters.update, controller.counters.steps, 0))
        self._confirming = True
        self._show_state()
        self._launcher.run_only(self, "confirmation", lambda: not self._confirming or controller.reason is not None)
        if self._confirming:
            controller.not_confirmed()
        self._confirming = False
        while self._postponed:
            self.receive(self._postponed.popleft())

    def _give(self, to: str, order: Order) -> None:
        if isinstance(order, Reconfigure):  # actors prepare fragments by the same settings that trainers learn by
            self._launcher.order("actor", order)
        self._launcher.order(to, order)
        facts = dataclasses.asdict(order) if isinstance(order, Reconfigure) else {}
        self._folder.event("order", order=type(order).__name__, to=to, **facts)

    def note(self, text: str) -> None:
        """Say something aloud."""
        LOG.info(text)
        self._folder.event("note", text=text)
        if self._view is not None:
            self._view.note(text)

    @property
    def _state(self) -> str:
        if self.controller.reason is not None:
            return "stopping"
        return "paused" if self.controller.paused else "confirming" if self._confirming else "running"

    def _show_state(self) -> None:
        if self._view is not None and self._state != self._shown_state:
            self._shown_state = self._state
            self._view.state(self._state)
