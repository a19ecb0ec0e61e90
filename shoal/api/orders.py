"""What workers are told: small typed orders, in order, none lost, also across a restart of the worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Order:
    """One thing that a worker is told."""

    lasting: ClassVar[bool] = False
    """It changes how the worker goes on, so each new life of the worker is told again."""

    @property
    def replaces(self) -> str:
        """Of several lasting orders with the same word here, only the newest counts; empty: all do."""
        return ""


@dataclass(frozen=True)
class Save(Order):
    """Say what a checkpoint keeps of you: answer `Saved` with the same `request`."""

    request: int
    round: int
    """The round that follows on the versions that are saved."""


@dataclass(frozen=True)
class SetStage(Order):
    """The run is in this stage of its curriculum."""

    lasting: ClassVar[bool] = True
    stage: int

    @property
    def replaces(self) -> str:
        return "stage"


@dataclass(frozen=True)
class SetOdds(Order):
    """Whom the players of a league meet in the episodes that begin from now on."""

    lasting: ClassVar[bool] = True
    odds: dict[str, list[list[Any]]] = field(default_factory=dict)
    """Player -> those it may meet: the place of their player, the number of a member or -1 as it learns, and how often."""

    @property
    def replaces(self) -> str:
        return "odds"


@dataclass(frozen=True)
class Evaluate(Order):
    """This version is saved, and its parameters are on their way to be evaluated; the newest counts."""

    lasting: ClassVar[bool] = True
    version: int
    steps: int
    """Environment steps of training behind it."""
    stage: int
    """Of the curriculum."""

    @property
    def replaces(self) -> str:
        return "evaluate"


@dataclass(frozen=True)
class Reconfigure(Order):
    """Change settings of a policy's algorithm, from the next update on: answer `Reconfigured`."""

    lasting: ClassVar[bool] = True
    policy: str
    changes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadWeights(Order):
    """Go on with the parameters and the optimiser of a checkpoint, whose policy may have another name."""

    policy: str
    checkpoints: str
    """The folder; empty: begin anew, as the policy was made."""
    version: int
    source: str


@dataclass(frozen=True)
class Flush(Order):
    """Post the fragment of that round as it is: other policies of the run wait for it."""

    producer: int
    policy: str
    round: int


@dataclass(frozen=True)
class Pause(Order):
    """The run rests, or goes on: trainers wait at their gates, and so everyone does who waits for them."""

    lasting: ClassVar[bool] = True
    paused: bool

    @property
    def replaces(self) -> str:
        return "pause"


@dataclass(frozen=True)
class Conclude(Order):
    """Training is over: do what is left to do for its result, and say `Concluded` when that is done."""

    lasting: ClassVar[bool] = True

    @property
    def replaces(self) -> str:
        return "conclude"


@dataclass(frozen=True)
class Heard(Order):
    """Another worker said this, which this one listens to: see `WorkerSpec.hears`. Long messages come in pieces."""

    message: Any


@dataclass(frozen=True)
class Stop(Order):
    """Close everything and end."""

    reason: str = ""
    """Why the run is over, where that is known."""
