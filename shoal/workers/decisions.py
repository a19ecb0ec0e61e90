"""What the controller decides: small typed facts, in order, for whoever runs the workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.api.orders import Order


@dataclass(frozen=True)
class Confirm:
    """Play greedy episodes with the newest version, and tell `confirm` what came of it."""


@dataclass(frozen=True)
class WriteRow:
    """Write a row: that of `row`."""


@dataclass(frozen=True)
class SaveNow:
    """Write a checkpoint of this moment."""

    evaluate: bool
    """And let it be evaluated."""


@dataclass(frozen=True)
class KeepScore:
    """A version was evaluated: an event of the run; the version stays, if it is the best."""

    event: dict[str, Any]


@dataclass(frozen=True)
class EnterStage:
    """All environments go on in this stage of the curriculum."""

    stage: int


@dataclass(frozen=True)
class Give:
    """A worker asked for this order; `to`: the name or the kind of a worker."""

    to: str
    order: Order


@dataclass(frozen=True)
class Say:
    """A line for people. `event`: also an event of the run, of that kind."""

    text: str
    event: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


Decision = Confirm | WriteRow | SaveNow | KeepScore | EnterStage | Give | Say
