"""What people ask a live run for: an order in a line of words in, what is done about it and an answer out."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from shoal.api.orders import Pause, Reconfigure
from shoal.api.program import Program
from shoal.base.config import load_layers
from shoal.base.errors import InputError
from shoal.base.table import did_you_mean
from shoal.launchers.launcher import Launcher
from shoal.monitoring.run_folder import RunFolder
from shoal.runs.spectator import Spectator
from shoal.workers.controller import Controller
from shoal.workers.decisions import Give

ORDERS = ("status", "pause", "unpause", "stop", "checkpoint", "evaluate", "reconfigure", "watch")


class Answers:
    """Behind the panel of a run. What takes longer than an answer is left to the controller's list."""

    def __init__(
        self, folder: RunFolder, program: Program, launcher: Launcher, controller: Controller, state: Callable[[], str]
    ) -> None:
        self._folder, self._program, self._launcher = folder, program, launcher
        self._controller, self._state = controller, state
        self._spectator = Spectator(folder)
        self.hurried = False
        """Somebody said stop, and said it again."""

    def close(self) -> None:
        """Nobody watches any more."""
        self._spectator.close()

    def obey(self, order: str) -> dict[str, Any]:
        """Do it, and say what state the run is in."""
        controller = self._controller
        word, *rest = order.split() or [""]
        if rest and word != "reconfigure":  # no other has more than one word
            word = order
        if word == "status":
            return self._status()
        if word == "watch":  # as often as somebody looks: no event
            return self._watch()
        if word in ("stop", "SIGINT", "SIGTERM", "SIGHUP"):  # signals were caught by a driver elsewhere
            self.hurried = controller.reason is not None
            controller.stop("stopped by order" if word == "stop" else f"interrupted by {word}")
        elif word in ("pause", "unpause"):
            controller.paused = word == "pause"
            self._launcher.order("", Pause(controller.paused))
        elif word == "checkpoint":
            controller.save_next(evaluate=False)
        elif word == "evaluate":
            self._evaluate()
        elif word == "reconfigure":
            controller.todo.append(Give("trainer", self._changes(rest)))
        else:
            raise InputError(f"there is no order '{order}': choose from {', '.join(ORDERS)}")
        self._folder.event("order", order=order)
        return {"state": self._state()}

    def _evaluate(self) -> None:
        if self._program.experiment.evaluation is None:
            raise InputError("this run has nobody who evaluates: start it with evaluation.every, e.g. 30s")
        self._controller.save_next(evaluate=True)

    def _changes(self, words: list[str]) -> Reconfigure:
        """`[POLICY] KEY=VALUE ...`, of the one policy that learns where none is named."""
        learners = list(self._program.learners)
        named = [word for word in words if "=" not in word]
        policy = named[0] if named else learners[0]
        if policy not in learners or len(named) > 1 or (not named and len(learners) > 1):
            wrong = named[-1] if named else ""
            raise InputError(f"reconfigure: name the policy; {did_you_mean(wrong, learners)}")
        pairs = [word.partition("=") for word in words if "=" in word]
        changes = {key: load_layers(None, [f"value={value}"])["value"] for key, _, value in pairs}
        if not changes:
            raise InputError("reconfigure: say what shall change, as in: reconfigure lr=0.0003")
        return Reconfigure(policy, changes)

    def _watch(self) -> dict[str, Any]:
        if not self._spectator.has_checkpoint():
            self._controller.save_next(evaluate=False)
        return {"state": self._state(), "said": self._spectator.lease()}

    def _status(self) -> dict[str, Any]:
        controller, account = self._controller, self._launcher.accounts()
        shares = controller.time.shares()
        return {
            "run": self._folder.name, "pid": os.getpid(), "state": self._state(),
            "step": controller.counters.steps, "update": controller.counters.update,
            "elapsed": controller.elapsed, "fps": controller.fps, "return": controller.recent_return,
            "stop": self._program.experiment.stop.model_dump(exclude_none=True),
            "workers": [{**shares.get(worker["kind"], {}), **worker} for worker in self._launcher.workers()],
            "rows": account.named, "replay": account.replayed,
            "evaluating": controller.scoreboard.evaluating, "evaluated": controller.scoreboard.newest,
            "shown": controller.shown,
        }  # fmt: skip
