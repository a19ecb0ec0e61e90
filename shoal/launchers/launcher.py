"""What every launcher is to the run around it."""

from __future__ import annotations

from typing import Protocol

from shoal.streams.primitives import Mailbox
from shoal.workers.controller import Controller
from shoal.workers.trainer import TrainerWorker


class Launcher(Protocol):
    """Runs the workers of one Program."""

    mailboxes: dict[str, Mailbox]
    """Policy -> its versions."""
    trainers: dict[str, TrainerWorker]
    """Policy -> its trainer."""

    def run(self, controller: Controller) -> str | None:
        """Until the controller has a reason to stop; the name of the signal that ended it, if one did."""

    def close(self) -> None:
        """Stop what was started, free what is held."""
