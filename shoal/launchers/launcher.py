"""What every launcher is to the run around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from shoal.streams.primitives import Mailbox
from shoal.streams.sample import Account
from shoal.workers.controller import Controller


class Launcher(Protocol):
    """Runs the workers of one Program."""

    mailboxes: dict[str, Mailbox]
    """Policy -> its versions."""

    goes_on: bool | None
    """Workers went on with what a checkpoint holds of them, open episodes included; None: nothing but what was learnt."""

    def run(self, controller: Controller) -> str | None:
        """Until the controller has a reason to stop; the name of the signal that ended it, if one did."""

    def evaluate(self, version: int) -> None:
        """A version is saved, and due to be judged."""

    def judge(self, controller: Controller, done: Callable[[], bool]) -> None:
        """Let the evaluation worker go on, and nobody else, until it is `done`; a signal ends it."""

    def quiet(self) -> None:
        """Return when no trainer is inside an update."""

    def states(self) -> dict[str, Tensor]:
        """All that a checkpoint keeps, as `policy/name`."""

    def contents(self, version: int) -> dict[str, bytes]:
        """Worker -> what it holds, for a checkpoint of `version`; empty: this launcher cannot ask, or nobody needs it."""

    def enter_stage(self, stage: int) -> None:
        """Tell actors which stage of the curriculum the run is in."""

    def accounts(self) -> Account:
        """What became of all rows of this launch."""

    def workers(self) -> list[dict[str, Any]]:
        """For people: name, kind, pid, state, restarts and shares of time of each."""

    def close(self) -> None:
        """Stop what was started, free what is held."""
