"""The trainer worker.

Consumes batches of fragments; produces parameter versions and metrics; waits for a whole batch, and after each update for the
controller's leave to go on. Slots are freed after the version trained on them is published: that is what bounds the lag. If its
algorithm replays, it keeps what it takes and learns from batches drawn out of that: still one version per batch taken. Where buffer
workers replay, it takes batches from them, and makes a version of as many.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shoal.api.algorithm import Algorithm, Learner, NonFiniteError
from shoal.api.fragment import Fragment
from shoal.api.metric import Largest, Metric, Total, merge_into
from shoal.api.worker import Report, Worker
from shoal.base.errors import InputError, ShoalError
from shoal.base.faults import NO_FAULTS, Faults
from shoal.base.tree import Tree
from shoal.monitoring.shares import Shares
from shoal.streams.leave import Leave
from shoal.streams.past import Archive
from shoal.streams.primitives import Mailbox
from shoal.streams.sample import Posted, SampleReader
from shoal.workers.batch import find_problem, join
from shoal.workers.prefetched import PrefetchedFeed
from shoal.workers.replay import ReplayFeed

BAD_IN_A_ROW = 10
"""Dropped batches, one after the other, that end the run."""


@dataclass(frozen=True)
class Replica:
    """Which one of a trainer's replicas this is, and whether it goes its own way or in step with the others."""

    rank: int = 0
    of: int = 1
    in_step: bool = True

    @property
    def speaks(self) -> bool:
        """Of replicas in step, the first publishes for all, and is given leave for all."""
        return self.rank == 0 or not self.in_step


class TrainerWorker(Worker):
    """Trains one policy, alone or as one replica of several."""

    def __init__(
        self, policy: str, algorithm: Algorithm, learner: Learner, samples: SampleReader, mailbox: Mailbox, *,
        max_lag: int = 0, replica: Replica = Replica(), leave: Leave | None = None,
        archives: list[Archive] | None = None, replay: ReplayFeed | None = None, feed: PrefetchedFeed | None = None,
        faults: Faults = NO_FAULTS,
    ) -> None:  # fmt: skip
        self.name = f"trainer-{policy}-{replica.rank}"
        self.policy, self.algorithm = policy, algorithm
        self._learner, self._samples, self._mailbox = learner, samples, mailbox
        self._max_lag, self._replica, self._leave, self._faults = max_lag, replica, leave, faults
        self._archives, self._replay, self._feed = archives or [], replay, feed
        self._shares = Shares("trainer")
        self.version, self.steps = 0, 0
        self._updates = 0
        self._bad = 0
        self._learned: dict[str, Metric] = {}

    def start(self) -> None:
        """Publish the version that training starts from. If a life before did, and died: go on from what others act with."""
        block = self.algorithm.flat.block.numpy()
        if self.version == self._mailbox.latest() and self._replica.in_step:
            self._mailbox.read(self.version, block)
        elif self._replica.rank == 0 and self.version > self._mailbox.latest():
            self._mailbox.publish(self.version, block)
        self._keep(self.version)

    @property
    def _oldest(self) -> int:
        return self.version - self._max_lag

    def ready(self) -> bool:
        """A batch is there."""
        return self._samples.ready(self._oldest)

    @property
    def state_due(self) -> bool:
        """The controller asked for the state."""
        return self._leave is not None and self._leave.state_due

    def poll(self, timeout: float) -> Report:
        if self._leave is not None:
            granted = self._leave.granted(self._updates, timeout)
            if self._leave.state_due:  # what is saved is a version: a round that is under way becomes one
                return self._end_round(self._feed) if self._feed and self._feed.drawn else self._hand_in(self._leave)
            if not granted:
                return Report()
        self._shares.switch("waited_input")
        if self._feed is not None:
            return self._draw(self._feed, timeout)
        taken = self._samples.take(timeout, self._oldest)
        if taken is None:
            return Report()
        self._shares.switch("worked")
        self._faults.at("update", self._updates + 1)
        report = self._update(taken)
        self._updates += 1
        self._shares.switch("waited_input" if self._leave is None else "waited_slot")
        return report

    def _update(self, taken: list[Posted]) -> Report:
        began = time.perf_counter()
        lag = self.version - min(int(posted.header["version"]) for posted in taken)
        rows = sum(int(posted.header["rows"]) for posted in taken)
        batch = join([posted.fragment for posted in taken])
        problem = self._agree(sum(int(posted.header["steps"]) for posted in taken), find_problem(batch))
        if self._replay is None:
            metrics, problem = self._train([batch], problem)
        else:  # what a drawn batch lacks is no fault of the round that was kept
            fragments = [posted.fragment for posted in taken]
            metrics, undone = self._train(self._replay.batches(fragments, self.version, self._learner), problem)
            metrics |= self._replay.metrics()
            if undone and not problem:
                metrics["train/undone_rounds"] = Total(1)
        self._publish()
        if self._replay is None or problem:
            self._samples.free("not_finite" if problem else "trained")
        else:
            self._samples.free("inserted", self._replay.evicted)
        metrics["train/dropped_not_finite" if problem else "train/rows"] = Total(rows)
        metrics |= {"train/lag": Largest(lag), "time/train": Total(time.perf_counter() - began), **self._shares.take()}
        rank, steps = self._replica.rank, self.steps
        return Report(
            True, policy=self.policy, version=self.version, replica=rank, trained_steps=steps, metrics=metrics
        )

    def _draw(self, feed: PrefetchedFeed, timeout: float) -> Report:
        """Learn from one batch of the buffer workers; after as many as a round has, there is a new version."""
        if not feed.take(timeout):
            return Report()
        self._shares.switch("worked")
        self._faults.at("update", self._updates + 1)
        began = time.perf_counter()
        self._agree(feed.steps, None)
        metrics, undone = self._train([feed.batch(self.steps)], None)
        if undone:
            metrics["train/undone_rounds"] = Total(1)
        merge_into(self._learned, {**metrics, "time/train": Total(time.perf_counter() - began)})
        if undone or feed.round_over:
            return self._end_round(feed)
        self._shares.switch("waited_input")
        return Report(True)

    def _end_round(self, feed: PrefetchedFeed) -> Report:
        self._publish()
        self._updates += 1
        self._shares.switch("waited_input" if self._leave is None else "waited_slot")
        metrics, self._learned = {**self._learned, **feed.end_round(), **self._shares.take()}, {}
        return Report(True, policy=self.policy, version=self.version, trained_steps=self.steps, metrics=metrics)

    def _agree(self, steps: int, problem: str | None) -> str | None:
        """Replicas in step count the steps of all, and drop a batch together if one of them has to."""
        count, bad = self._learner.mean(torch.tensor([steps, problem is not None], dtype=torch.float64)).tolist()
        self.steps += round(count * self._replica.of) if self._replica.in_step else steps
        self._learner.steps = self.steps if self._replica.in_step else self.steps * self._replica.of
        return (problem or "a replica's batch is not finite") if bad else None

    def _train(self, batches: Iterable[Fragment], problem: str | None) -> tuple[dict[str, Metric], str | None]:
        """Learn from the batches of a round, or drop them and say why."""
        metrics: dict[str, Metric] = {}
        if problem is None:
            try:
                for batch in batches:
                    update = self.algorithm.update(batch, self._learner)
                    merge_into(metrics, update.metrics)
                    replay = self._feed or self._replay
                    if replay is not None:
                        replay.learned(batch, update)
            except NonFiniteError as error:
                self._mailbox.read(self.version, self.algorithm.flat.block.numpy())  # undo the minibatches before
                problem = str(error)
        self._bad = self._bad + 1 if problem else 0
        if self._bad >= BAD_IN_A_ROW:
            raise ShoalError(
                f"{self.name}: {self._bad} batches in a row were not finite, the last: {problem}; "
                "try `shoal check-env` on the environment, or a smaller algorithm.lr"
            )
        return metrics, problem

    def _publish(self) -> None:
        """In step all replicas count alike, and the first publishes; otherwise the versions of all are counted together."""
        version = self.version + 1 if self._replica.in_step else self._mailbox.latest() + 1
        self._keep(version)
        if self._replica.speaks:
            self._mailbox.publish(version, self.algorithm.flat.block.numpy())
        self.version = version if self._replica.in_step else self._mailbox.latest()

    def _keep(self, version: int) -> None:
        for archive in self._archives:
            archive.keep(version, self.algorithm.flat.block.numpy())

    # ------------------------------------------------------------ state

    def _hand_in(self, leave: Leave) -> Report:
        import safetensors.torch

        leave.state_given()
        owned = {name: tensor.detach().clone().contiguous() for name, tensor in self.state_dict().items()}
        return Report(True, policy=self.policy, replica=self._replica.rank, state=safetensors.torch.save(owned))

    def state_dict(self) -> dict[str, Tensor]:
        """All of the algorithm."""
        return self.algorithm.state_dict()

    def restore(self, tensors: dict[str, Tensor], version: int) -> None:
        """Go on from a checkpoint, before `start`."""
        load_policy(self.algorithm, tensors, self.policy)
        self.version = version

    def contents(self, version: int) -> Tree | None:
        """What it keeps for replay."""
        return self._replay.buffer.state_dict() if self._replay is not None and self._replay.saved else None

    def restore_replay(self, contents: Tree) -> None:
        """Go on from `contents`."""
        if self._replay is not None:
            self._replay.buffer.load_state_dict(contents)

    def publish_older(self, versions: dict[int, np.ndarray]) -> None:
        """Versions before its own, oldest first, that somebody may still act with. Before `start`."""
        for version, block in versions.items():
            if self._replica.rank == 0 and version > self._mailbox.latest():
                self._mailbox.publish(version, block)


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
