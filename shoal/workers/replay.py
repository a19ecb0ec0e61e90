"""What a trainer that replays learns from: rounds go into a buffer, batches come out, their new priorities go back."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from shoal.api.algorithm import Learner, Replay, Update
from shoal.api.fragment import Fragment
from shoal.api.metric import Mean, Metric
from shoal.buffers.sequences import SequenceReplay
from shoal.workers.batch import join


class ReplayFeed:
    """One replica's buffer, and the batches of a round. Equal seeds, rounds and versions give equal batches."""

    def __init__(self, needs: Replay, buffer: SequenceReplay, replicas: int = 1, *, saved: bool = False) -> None:
        self._needs, self.buffer = needs, buffer
        self.saved = saved
        """Checkpoints hold it."""
        self._sequences = max(1, needs.sequences // replicas)
        self._replicas = replicas
        self._updates = self._rows = 0
        self.evicted = 0
        """Rows that made room for the last round."""

    def batches(self, fragments: list[Fragment], version: int, learner: Learner) -> Iterator[Fragment]:
        """Keep a round; then as many batches as it is worth, none of them before there are `warmup` rows."""
        before, evicted = self.buffer.inserted, self.buffer.evicted
        for fragment in fragments:
            self.buffer.insert(fragment)
        self._updates, self._rows = 0, self.buffer.inserted - before
        self.evicted = self.buffer.evicted - evicted
        # Replicas differ in rows and must begin together.
        held = float(learner.mean(torch.tensor(float(self.buffer.held)))) * self._replicas
        if held < self._needs.warmup or not self.buffer.filled:
            return
        for number in range(self._needs.updates):
            self._updates += 1
            yield join([self.buffer.sample(self._sequences, version * self._needs.updates + number, learner.steps)])

    def learned(self, batch: Fragment, update: Update) -> None:
        """What a batch turned out to be worth counts from the next draw on."""
        if batch.keys is not None and update.priorities is not None:
            self.buffer.revalue(batch.keys.numpy(), update.priorities.numpy())

    def metrics(self) -> dict[str, Metric]:
        """Of the round that is over."""
        return {**self.buffer.metrics(), "train/updates_per_row": Mean(self._updates / max(self._rows, 1))}
