"""What a trainer learns from where buffer workers replay: their parts joined to batches, and priorities sent back."""

from __future__ import annotations

import torch

from shoal.api.algorithm import Replay, Update
from shoal.api.fragment import Fragment
from shoal.api.metric import Last, Metric, Total
from shoal.buffers.weights import batch_weights, beta_at
from shoal.streams.batch import BatchReader, Part
from shoal.workers.batch import join


class PrefetchedFeed:
    """Batches one by one; a round is as many as the algorithm makes of a round of rows, and ends in a version."""

    def __init__(self, needs: Replay, reader: BatchReader) -> None:
        self._needs, self._reader = needs, reader
        self._parts: list[Part] = []
        self._newest: dict[int, dict[str, float]] = {}
        self._beta = 0.0
        self._warmup, self._updates, self._inserted = 0, 0, 0
        self._rows = self._short = 0
        self.drawn = 0
        """Batches of the round that is under way."""
        self.steps = 0
        """Environment steps behind what was inserted since the batch before."""

    @property
    def round_over(self) -> bool:
        """It is time for a version."""
        return self.drawn >= self._needs.updates

    def take(self, timeout: float) -> bool:
        """Whether a batch is there. What was taken before is given back."""
        self._reader.free(self._parts)
        self._parts = self._reader.take(timeout) or []
        if not self._parts:
            return False
        self._newest |= {part.shard: part.told() for part in self._parts}
        taken = [self._newest[part.shard] for part in self._parts]
        rows, self.steps = (int(sum(facts[name] for facts in taken)) for name in ("rows", "steps"))
        self._rows += rows
        self._inserted += rows
        self._warmup = self._warmup or rows
        self._short += len(self._parts) < self._reader.shards
        self._updates += 1
        self.drawn += 1
        return True

    def batch(self, steps: int) -> Fragment:
        """The batch that is there. Of one shard, its arrays are those of the slot."""
        batch = join([part.fragment for part in self._parts])
        priorities = self._needs.priorities
        if priorities is not None:
            self._beta = beta_at(priorities, steps)
            chances = [(part.chances, int(self._newest[part.shard]["filled"])) for part in self._parts]
            batch.weights = torch.from_numpy(batch_weights(chances, self._beta))
        return batch

    def learned(self, batch: Fragment, update: Update) -> None:
        """Tell every shard what its part of the batch is worth."""
        if self._needs.priorities is None or update.priorities is None:
            return
        start = 0
        for part in self._parts:
            stop = start + len(part.keys)
            self._reader.give_back(part, update.priorities[start:stop].numpy())
            start = stop

    def end_round(self) -> dict[str, Metric]:
        """Its numbers; those of shards are added up, as each of them told with its newest part."""
        shards = list(self._newest.values())
        metrics: dict[str, Metric] = {
            "replay/held": Last(sum(facts["held"] for facts in shards)),
            "replay/evicted": Last(sum(facts["evicted"] for facts in shards)),
            "train/updates_per_row": Last(self._updates / max(self._inserted - self._warmup, 1)),
            "train/rows": Total(self._rows),
        }
        if self._short:
            metrics["train/short_batches"] = Total(self._short)
        if self._needs.priorities is not None:
            metrics |= {
                "replay/greatest_priority": Last(max(facts["greatest"] for facts in shards)),
                "replay/beta": Last(self._beta),
                "replay/stale": Last(sum(facts["stale"] for facts in shards) + self._reader.unreturned),
            }
        self.drawn = self._rows = self._short = 0
        return metrics
