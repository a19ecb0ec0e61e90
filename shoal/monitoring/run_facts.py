"""What a view tells of a run besides its rows: plain data, gathered where settings and algorithms are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.api.experiment import StopConfig


@dataclass(frozen=True)
class Learning:
    """How a policy learns."""

    algorithm: str
    metrics: tuple[str, ...]
    """`Algorithm.key_metrics`: those worth watching, without `train/`."""


@dataclass(frozen=True)
class RunFacts:
    """One run, by its settings."""

    name: str
    folder: Path
    stop: StopConfig
    seed: int
    learning: Learning
    """Of every policy that has none of its own."""
    own: Mapping[str, Learning] = field(default_factory=dict)
    """Policy -> its own way to learn."""
    here: bool = True
    """Its processes are this one and its children; False: they are those of a cluster."""

    def of(self, policy: str) -> Learning:
        """How that policy learns."""
        return self.own.get(policy, self.learning)

    @property
    def title(self) -> str:
        """`cartpole: ppo, seed 1`."""
        algorithms = dict.fromkeys(each.algorithm for each in (self.own or {"": self.learning}).values())
        return f"{self.name}: {', '.join(algorithms)}, seed {self.seed}"
