"""The trainer worker.

Consumes rounds of fragments; produces parameter versions and metrics; waits for a whole round. Slots are freed after the
version trained on them is published: that is what bounds the lag.
"""

from __future__ import annotations

import time
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from shoal.algorithms.learner import SoloLearner
from shoal.api.algorithm import Algorithm, NonFiniteError
from shoal.api.fragment import Fragment
from shoal.api.metric import Largest, Metric, Total
from shoal.api.worker import Report, Worker
from shoal.base.errors import ShoalError
from shoal.base.tree import tree_leaves, tree_map
from shoal.streams.primitives import Mailbox
from shoal.streams.sample import Posted, SampleReader

BAD_IN_A_ROW = 10
"""Dropped batches, one after the other, that end the run."""


class TrainerWorker(Worker):
    """Trains one policy."""

    def __init__(self, name: str, algorithm: Algorithm, samples: SampleReader, mailbox: Mailbox) -> None:
        self.name, self.algorithm = name, algorithm
        self._samples, self._mailbox = samples, mailbox
        self._learner = SoloLearner()
        self.version, self.steps = 0, 0
        self._bad = 0

    def start(self) -> None:
        """Publish the version that training starts from."""
        self._mailbox.publish(self.version, self.algorithm.flat.block.numpy())

    def poll(self, timeout: float) -> Report:
        taken = self._samples.take(timeout)
        if taken is None:
            return Report()
        began = time.perf_counter()
        steps = sum(int(posted.header["steps"]) for posted in taken)
        self._learner.steps = self.steps = self.steps + steps
        rows = sum(int(posted.header["rows"]) for posted in taken)
        lag = self.version - min(int(posted.header["version"]) for posted in taken)
        metrics = self._train(taken)
        self.version += 1
        self._mailbox.publish(self.version, self.algorithm.flat.block.numpy())
        self._samples.free(taken)
        metrics |= {
            "train/rows": Total(rows),
            "train/lag": Largest(lag),
            "time/train": Total(time.perf_counter() - began),
        }
        return Report(worked=True, version=self.version, trained_steps=self.steps, metrics=metrics)

    def _train(self, taken: list[Posted]) -> dict[str, Metric]:
        """Learn from the batch, or drop it and say why."""
        batch = join([posted.fragment for posted in taken])
        try:
            check_finite(batch)
            metrics = self.algorithm.update(batch, self._learner).metrics
        except NonFiniteError as error:
            self._mailbox.read(
                self.version, self.algorithm.flat.block.numpy()
            )  # undo the minibatches before the bad one
            self._bad += 1
            if self._bad >= BAD_IN_A_ROW:
                raise ShoalError(
                    f"{self.name}: {self._bad} batches in a row were not finite, the last: {error}"
                ) from error
            return {"train/dropped_not_finite": Total(1)}
        self._bad = 0
        return metrics

    def state_dict(self) -> dict[str, Tensor]:
        """All of the algorithm."""
        return self.algorithm.state_dict()

    def restore(self, state: dict[str, Tensor], version: int, steps: int) -> None:
        """Go on from a checkpoint, before `start`."""
        self.algorithm.load_state_dict(state)
        self.version, self.steps = version, steps


def join(fragments: list[Fragment]) -> Fragment:
    """Fragments side by side as one batch of tensors; a single one is not copied."""
    if len(fragments) == 1:
        return fragments[0].map(torch.from_numpy)

    def lanes(axis: int):  # type: ignore[no-untyped-def]
        return lambda *arrays: torch.from_numpy(np.concatenate(arrays, axis))

    joined = {}
    for field in fields(Fragment):
        parts = [getattr(fragment, field.name) for fragment in fragments]
        joined[field.name] = tree_map(lanes(0 if field.name in ("state", "lanes") else 1), *parts)
    return Fragment(**joined)


def check_finite(batch: Fragment) -> None:
    """A sum is finite only if every part is; one pass, no mask."""
    for name in ("reward", "observation", "extras"):
        for path, leaf in tree_leaves(getattr(batch, name), name):
            if leaf.is_floating_point() and not torch.isfinite(leaf.sum()):
                lanes = (~torch.isfinite(leaf.flatten(2)).all(-1) if leaf.ndim > 2 else ~torch.isfinite(leaf)).any(0)
                raise NonFiniteError(f"{path} of lanes {batch.lanes[lanes].tolist()} is not finite")


def part_of(tensors: dict[str, Tensor], policy: str) -> dict[str, Tensor]:
    """A checkpoint's tensors of one policy."""
    return {
        name.removeprefix(f"{policy}/"): tensor for name, tensor in tensors.items() if name.startswith(f"{policy}/")
    }
