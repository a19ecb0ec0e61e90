"""What workers say: small typed messages, in order, to the controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.api.env import Episode
from shoal.api.evaluation import Evaluation, Scores
from shoal.api.metric import Metric
from shoal.api.orders import Order


@dataclass(frozen=True)
class Message:
    """One thing that a worker has to say. Plain data: numbers, words, bytes, arrays, and other dataclasses of `shoal.api`."""


@dataclass(frozen=True)
class Numbers(Message):
    """Metrics alone: several may be merged into one on their way. Empty: the worker did something, and that is all."""

    metrics: dict[str, Metric] = field(default_factory=dict)


@dataclass(frozen=True)
class Episodes(Message):
    """Of an actor: what its environments did."""

    steps: int
    """Environment steps taken."""
    rounds: dict[int, dict[str, int]] = field(default_factory=dict)
    """Producer -> policy -> the round that it is in: of those before there is no more to tell."""
    episodes: list[Episode] = field(default_factory=list)
    metrics: dict[str, Metric] = field(default_factory=dict)


@dataclass(frozen=True)
class Matches(Message):
    """Of an actor in a league: the matches that ended."""

    records: bytes
    """Of `shoal.api.league.MATCH`."""


@dataclass(frozen=True)
class Updated(Message):
    """Of a trainer: a version is finished."""

    policy: str
    version: int
    replica: int
    """Which replica speaks. What replicas in step say of a version is joined before anybody acts on it."""
    steps: int
    """Environment steps behind that version: of all replicas in step, otherwise of this one."""
    metrics: dict[str, Metric] = field(default_factory=dict)
    trained: bool = True
    """False: the policy is through with its stop rule, and this round of experience was let go."""


@dataclass(frozen=True)
class Saved(Message):
    """The answer to `Save`."""

    worker: str
    request: int
    state: bytes
    """What a checkpoint keeps of the worker, packed; empty: nothing."""
    learned: bytes = b""
    """Of a trainer: its algorithm, as safetensors."""


@dataclass(frozen=True)
class Evaluating(Message):
    """The evaluation of this version begins."""

    version: int


@dataclass(frozen=True)
class Evaluated(Message):
    """A version was evaluated."""

    evaluation: Evaluation


@dataclass(frozen=True)
class Confirmed(Message):
    """The greedy episodes that decide whether `stop.return` is reached."""

    version: int
    scores: Scores


@dataclass(frozen=True)
class Reconfigured(Message):
    """The answer to `Reconfigure`: the settings now in use, as the algorithm reads them back."""

    policy: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Requested(Message):
    """A worker wants an order given. `to`: the name or the kind of a worker."""

    to: str
    order: Order


@dataclass(frozen=True)
class Finished(Message):
    """A worker has learned that the run is over: it ends as by an order."""

    reason: str


@dataclass(frozen=True)
class Concluded(Message):
    """The answer to `Conclude`, in its own time: nothing is left to do for the result of the run."""

    worker: str


@dataclass(frozen=True)
class Shown(Message):
    """A table that a worker wants people to see, as it is now: for the live view and `shoal status`."""

    title: str
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Note(Message):
    """A line for people, and an event of the run."""

    text: str
