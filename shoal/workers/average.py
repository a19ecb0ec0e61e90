"""Replicas that train alone and mix: every so many updates each takes a share of the mean of all, and waits for nobody.

The scheme of parents and children that is known as A4C, among the replicas of one trainer: over shared memory or between machines.
With `parent` they are, all together or one alone, the child of a parent elsewhere, whose weights are mixed with theirs after each
round: the same scheme, over what carries `parent_link` there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from shoal.algorithms.learner import SoloLearner
from shoal.api.algorithm import Algorithm
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import MailboxShape, Port, Program
from shoal.base.config import Config, Count
from shoal.base.errors import InputError
from shoal.streams import names
from shoal.workers.context import Context
from shoal.workers.parent_link import ParentConfig, ParentLink, sizes, trained, up_shape
from shoal.workers.replica_sync import ReplicaSync, has_parent, version_shape


class Average(ReplicaSync):
    """Each replica has its own parameters, optimisers and actors; what they share is the mean of their weights."""

    class Config(ReplicaSync.Config):
        """How often, and how much."""

        every: Count = Field(10, ge=1)
        """Updates of a replica between two mixes."""
        alpha: float = Field(1.0, gt=0, le=1)
        """How much of the mean a replica takes: 1 goes to it, less stays nearer to its own."""
        parent: ParentConfig | None = None
        """Mix with a parent elsewhere as well: see `shoal child`, which sets it."""

    in_step = False

    def __init__(self, plan: PolicyPlan, rank: int, of: int, context: Context, config: Config) -> None:
        super().__init__(plan, rank, of, context, config)
        self.learner = SoloLearner(context.heartbeat.rest)
        self._weights = [context.streams.mailbox(names.weights(plan.name, other)) for other in range(of)]
        self._mixes = max(0, self._weights[rank].latest())
        self._parent: ParentLink | None = None
        if config.parent is not None:
            up, down = (context.streams.mailbox(name) for name in (names.up(plan.name, rank), names.down(plan.name)))
            self._parent = ParentLink(plan.algorithm, up, down, config.parent)

    @classmethod
    def version(cls, policy: str, rank: int) -> str:
        return names.version(policy) if rank == 0 else names.own_version(policy, rank)

    @classmethod
    def ports(cls, plan: PolicyPlan, program: Program, rank: int) -> list[Port]:
        if program.experiment.placement.inference == "worker":
            raise InputError(
                "placement.agree = 'average': each replica acts with its own weights; use placement.inference = inline"
            )
        nbytes = sum(block.nbytes for block in trained(plan.algorithm))
        others = [other for other in range(program.trainers) if other != rank]
        ports = [
            Port(cls.version(plan.name, rank), "write", version_shape(plan, program)),
            Port(names.weights(plan.name, rank), "write", MailboxShape(nbytes)),
            *(Port(names.weights(plan.name, other), "read") for other in others),
        ]
        if has_parent(program):
            ports.append(Port(names.up(plan.name, rank), "write", up_shape(*sizes(plan.algorithm))))
            ports.append(Port(names.down(plan.name), "read"))
        return ports

    def may_begin(self, updates: int, ready: Callable[[], bool]) -> bool:
        return self._parent is None or self._parent.may_begin()

    def begin(self, algorithm: Algorithm) -> bool:
        """Take in what a parent has sent."""
        return self._parent is not None and self._parent.begin(algorithm)

    def updated(self, algorithm: Algorithm, updates: int) -> None:
        """Publish, then take a share of the mean of what all have published last; perhaps a round is over, too."""
        if self.of > 1 and updates % self._config.every == 0:
            self._mix(algorithm)
        if self._parent is not None:
            self._parent.updated(algorithm, updates, self.learner.steps // self.of)

    def _mix(self, algorithm: Algorithm) -> None:
        blocks = trained(algorithm)
        self._mixes += 1
        self._weights[self.rank].publish(self._mixes, torch.cat(blocks).cpu().numpy().view(np.uint8))
        found = [weights for mailbox in self._weights if (weights := _newest(mailbox, blocks)) is not None]
        mean = torch.stack(found).mean(0)
        for block, part in zip(blocks, mean.split([len(block) for block in blocks]), strict=True):
            block.lerp_(part.to(block.device), self._config.alpha)

    def recover(self, algorithm: Algorithm, *, kept: bool) -> None:
        """Go on from the weights that were published last, if nothing better is known; what the optimisers remembered is lost."""
        if kept:
            return
        blocks = trained(algorithm)
        known = _newest(self._weights[self.rank], blocks)
        if known is not None:
            for block, part in zip(blocks, known.split([len(block) for block in blocks]), strict=True):
                block.copy_(part)


def _newest(mailbox: Any, blocks: list[Tensor]) -> Tensor | None:
    """What a replica published last, as one vector; None: nothing yet."""
    vector = torch.empty(sum(len(block) for block in blocks), dtype=blocks[0].dtype)
    newest = mailbox.latest()
    return vector if newest >= 0 and mailbox.read(newest, vector.numpy().view(np.uint8)) else None
