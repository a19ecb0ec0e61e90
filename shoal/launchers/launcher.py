"""What every launcher is to the run around it, and what the run is to the launcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from shoal.api.messages import Message
from shoal.api.orders import Order
from shoal.base.errors import ShoalError
from shoal.streams.primitives import Mailbox
from shoal.streams.sample import Account
from shoal.workers.controller import Controller


@dataclass
class Snapshot:
    """All that a checkpoint keeps of the workers."""

    learned: dict[str, Tensor] = field(default_factory=dict)
    """As `policy/name`."""
    states: dict[str, bytes] = field(default_factory=dict)
    """Worker -> its state, packed."""


class HangsError(ShoalError):
    """A worker does not answer, and nobody can wait for it."""


class RunFiles(Protocol):
    """Where a run writes."""

    @property
    def name(self) -> str:
        """EXPERIMENT/TRIAL."""

    @property
    def logs(self) -> Path:
        """Where each process has a file."""

    @property
    def checkpoints(self) -> Path:
        """Where versions are saved."""

    def event(self, kind: str, **facts: Any) -> None:
        """Something happened."""


class Conductor(Protocol):
    """Who decides, and carries decisions out."""

    controller: Controller
    doors: list[Any]
    """What else to wait for besides the workers: where orders of people come in."""

    def receive(self, message: Message) -> None:
        """A worker said something."""

    def listen(self) -> None:
        """Take orders of people, if there are any, and carry out what is decided."""

    def answer(self) -> None:
        """Take orders of people; what is decided waits: something else is being carried out."""


class Launcher(Protocol):
    """Runs the workers of one Program."""

    mailboxes: dict[str, Mailbox]
    """Policy -> its versions."""

    goes_on: bool | None
    """Workers went on with what a checkpoint holds of them, open episodes included; None: nothing but what was learnt."""

    def run(self, conductor: Conductor) -> str | None:
        """Until the controller has a reason to stop; the name of the signal that ended it, if one did."""

    def run_only(self, conductor: Conductor, kind: str, done: Callable[[], bool]) -> None:
        """Let the workers of one kind go on, and nobody else, until it is `done`; a signal ends it."""

    def order(self, to: str, order: Order) -> None:
        """Tell a worker, or all of a kind, something; an empty word: all workers."""

    def publish(self, stream: str, version: int, block: Any) -> None:
        """Write into a mailbox that the controller writes."""

    def quiet(self) -> bool:
        """Return when no trainer is inside an update; False: the run is to end before that."""

    def save(self, round_: int) -> Snapshot:
        """What all workers hold, before that round. HangsError: the run is to end, and somebody does not answer."""

    def accounts(self) -> Account:
        """What became of all rows of this launch."""

    def workers(self) -> list[dict[str, Any]]:
        """For people: name, kind, pid, state, restarts and shares of time of each."""

    def close(self) -> None:
        """Stop what was started, free what is held."""
