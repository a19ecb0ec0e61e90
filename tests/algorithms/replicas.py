"""Replicas of a trainer as threads that wait for each other: what an algorithm must be fit for, without any process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from threading import Barrier
from typing import Any

import torch
from torch import Tensor

from shoal.api.algorithm import Differentiable, Learner, Optimiser
from shoal.api.fragment import Fragment
from shoal.base.tree import tree_map


class Meeting:
    """Where replicas exchange tensors."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self._barrier = Barrier(replicas, timeout=30)
        self._brought: list[Any] = [None] * replicas

    def sum(self, rank: int, value: Tensor) -> Tensor:
        """Of what all bring, in the order of ranks."""
        self._brought[rank] = value
        self._barrier.wait()
        total = torch.stack(self._brought).sum(0)
        self._barrier.wait()
        return total


class MeetingLearner(Learner):
    """Steps along the mean gradient over all rows of all replicas."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.steps, self.taken = 0, 0
        self._meeting, self._rank = meeting, rank

    def step(self, loss: Tensor | Differentiable, optimiser: Optimiser, weight: float = 1.0) -> float:
        gradients = optimiser.flat.gradients
        assert gradients is not None
        gradients.zero_()
        if weight:
            loss.backward()
        rows = self._meeting.sum(self._rank, torch.tensor(float(weight)))
        gradients.copy_(self._meeting.sum(self._rank, gradients * weight) / rows)
        norm = float(gradients.norm())
        gradients.mul_(min(1.0, optimiser.max_grad_norm / (norm + 1e-6)))
        optimiser.apply()
        self.taken += 1
        return norm

    def mean(self, value: Tensor) -> Tensor:
        return self._meeting.sum(self._rank, value) / self._meeting.replicas


def shares(batch: Fragment, replicas: int) -> list[Fragment]:
    """The lanes of a batch, dealt out in order."""
    found = []
    for lanes in torch.arange(len(batch.lanes)).chunk(replicas):
        own = {}
        for field in fields(Fragment):
            axis = 0 if field.name in ("state", "lanes") else 1
            own[field.name] = tree_map(lambda t: t.index_select(axis, lanes), getattr(batch, field.name))  # noqa: B023
        found.append(Fragment(**own))
    return found


def together(work: Callable[[int, MeetingLearner], Any], replicas: int = 2) -> list[Any]:
    """`work(rank, learner)` of every replica at once."""
    meeting = Meeting(replicas)
    with ThreadPoolExecutor(replicas) as pool:
        running = [pool.submit(work, rank, MeetingLearner(meeting, rank)) for rank in range(replicas)]
        return [each.result() for each in running]
