"""Where a run stands, and where each of its policies does."""

from __future__ import annotations

from dataclasses import dataclass, field

from shoal.api.experiment import PlacementConfig
from shoal.api.messages import Updated


@dataclass
class Counters:
    """Where the run stands; saved with every checkpoint, so that a resumed run goes on counting."""

    steps: int = 0
    update: int = 0
    elapsed: float = 0.0


@dataclass
class Clock:
    """Of one policy."""

    version: int = 0
    steps: int = 0
    """Environment steps behind it."""
    done: bool = False
    """It is through with its stop rule, and learns no more."""
    by_replica: dict[int, int] = field(default_factory=dict)
    """Steps behind what replicas said last, or began this launch with."""

    def go_on(self, version: int, steps: int, placement: PlacementConfig) -> None:
        """From where a checkpoint was written. Replicas that go their own way share out the steps: some may be heard late."""
        self.version, self.steps = version, steps
        apart = placement.agree is not None and placement.agree.name != "allreduce"
        replicas = placement.trainers or 1
        self.by_replica = dict.fromkeys(range(replicas), steps // replicas) if apart and replicas > 1 else {}

    def advance(self, message: Updated) -> None:
        """A replica has made a version."""
        self.version = max(self.version, message.version)
        self.by_replica[message.replica] = message.steps
        self.steps = max(self.steps, sum(self.by_replica.values()))
