"""What worker processes reserve on a cluster, and where it places them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shoal.base.config import Config, Count, Duration


class ResourcesConfig(Config):
    """What one worker process reserves on a cluster."""

    cpus: float = Field(1.0, ge=0)
    """Cores; parts of one are allowed. A trainer with more `threads` reserves as many."""
    gpus: float = Field(0.0, ge=0)
    """Accelerators to reserve; parts of one are allowed. 0, where `device` names one: 1."""
    memory: Count = Field(0, ge=0)
    """Bytes; 0 reserves none."""
    custom: dict[str, Annotated[float, Field(ge=0)]] = {}
    """Resources of the cluster's own, by name."""


class ClusterConfig(Config):
    """How a cluster places the worker processes. Read by `--on ray`."""

    actor: ResourcesConfig = ResourcesConfig()
    """Of each actor."""
    policy: ResourcesConfig = ResourcesConfig()
    """Of each policy worker."""
    trainer: ResourcesConfig = ResourcesConfig()
    """Of each trainer, with the actors that live in its process."""
    others: dict[str, ResourcesConfig] = {}
    """Of each worker of another kind, by kind: `buffer`, `evaluation`, or one of your own."""
    strategy: Literal["pack", "spread"] = "pack"
    """On as few machines as hold them, or on as many as there are."""
    head: bool = True
    """Workers may live on the head node."""
    wait: Duration = 60.0
    """How long workers may be without a place before the run ends."""
    weights: Literal["fp32", "fp16"] = "fp32"
    """How parameters travel between machines; fp16 is half as much and not exact."""

    def of(self, kind: str) -> ResourcesConfig:
        """What a worker of that kind reserves."""
        own = {"actor": self.actor, "policy": self.policy, "trainer": self.trainer}
        return own.get(kind) or self.others.get(kind) or ResourcesConfig()
