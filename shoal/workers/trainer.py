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
from shoal.base.errors import InputError, ShoalError
from shoal.base.tree import tree_leaves, tree_map
from shoal.streams.primitives import Mailbox
from shoal.streams.sample import Posted, SampleReader

BAD_IN_A_ROW = 10
"""Dropped batches, one after the other, that end the run."""


class TrainerWorker(Worker):
    """Trains one policy."""

    def __init__(self, policy: str, algorithm: Algorithm, samples: SampleReader, mailbox: Mailbox) -> None:
        self.name, self.policy, self.algorithm = f"trainer-{policy}", policy, algorithm
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
        lag = self.version - min(int(posted.header["version"]) for posted in taken)
        metrics = self._train(taken)
        self.version += 1
        self._mailbox.publish(self.version, self.algorithm.flat.block.numpy())
        self._samples.free(taken)
        metrics |= {"train/lag": Largest(lag), "time/train": Total(time.perf_counter() - began)}
        return Report(True, policy=self.policy, version=self.version, trained_steps=self.steps, metrics=metrics)

    def _train(self, taken: list[Posted]) -> dict[str, Metric]:
        """Learn from the batch, or drop it and say why."""
        rows = Total(sum(int(posted.header["rows"]) for posted in taken))
        batch = join([posted.fragment for posted in taken])
        try:
            check_finite(batch)
            metrics = self.algorithm.update(batch, self._learner).metrics
        except NonFiniteError as error:
            # Undo the minibatches before the bad one.
            self._mailbox.read(self.version, self.algorithm.flat.block.numpy())
            self._bad += 1
            if self._bad >= BAD_IN_A_ROW:
                raise ShoalError(
                    f"{self.name}: {self._bad} batches in a row were not finite, the last: {error}; "
                    "try `shoal check-env` on the environment, or a smaller algorithm.lr"
                ) from error
            return {"train/dropped_not_finite": rows}
        self._bad = 0
        return {**metrics, "train/rows": rows}

    def state_dict(self) -> dict[str, Tensor]:
        """All of the algorithm."""
        return self.algorithm.state_dict()

    def restore(self, tensors: dict[str, Tensor], policy: str, version: int, steps: int) -> None:
        """Go on from a checkpoint, before `start`."""
        load_policy(self.algorithm, tensors, policy)
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


def load_policy(algorithm: Algorithm, tensors: dict[str, Tensor], policy: str) -> None:
    """Give one policy its part of a checkpoint; settings that it was not made with are an error."""
    prefix = f"{policy}/"
    part = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    try:
        algorithm.load_state_dict(part)
    except (KeyError, RuntimeError, ValueError) as error:
        cause = " ".join(str(error).split())
        raise InputError(
            f"the checkpoint of policy '{policy}' does not fit: leave env, model and algorithm as they were ({cause})"
        ) from None
