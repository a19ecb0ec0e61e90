"""Where a trainer's batches come from: fresh fragments, replay beside it, or buffer workers. A trainer knows none of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from shoal.api.algorithm import Learner, Replay, Update
from shoal.api.fragment import Fragment
from shoal.api.metric import Largest, Last, Mean, Metric, Total
from shoal.base.tree import Tree
from shoal.buffers.sequences import SequenceReplay
from shoal.buffers.weights import batch_weights, beta_at
from shoal.streams.batch import BatchReader, Part
from shoal.streams.sample import Posted, SampleReader
from shoal.workers.batch import find_problem, join


@dataclass
class Round:
    """What was taken at once: environment steps and rows behind it, and what is wrong with it."""

    steps: int
    rows: int
    lag: int = 0
    problem: str | None = None
    """It is not finite: nobody learns from it."""
    empty: bool = False
    """There is nothing to learn from."""
    ends_version: bool = True
    """What was learned since the last version is published after it."""
    taken: list[Posted] = field(default_factory=list)


class BatchSource(ABC):
    """Legal order: `take` until it gives a round, `batches` (each followed by `learned`), `finish` once the version is out."""

    @abstractmethod
    def ready(self, oldest: int) -> bool:
        """A round is there. Experience of versions before `oldest` is dropped, unless the run is exact."""

    @abstractmethod
    def take(self, timeout: float, version: int, oldest: int) -> Round | None:
        """The next round; None while it is not whole."""

    @abstractmethod
    def batches(self, round_: Round, version: int, learner: Learner) -> Iterator[Fragment]:
        """What is learned from, batch by batch."""

    @property
    def draws_ahead(self) -> bool:
        """A batch may be drawn before the last was `learned`: what that one was worth does not matter to it."""
        return False

    def learned(self, batch: Fragment, update: Update) -> None:
        """A batch was learned from: its priorities go back."""
        return

    @abstractmethod
    def finish(self, round_: Round, outcome: str, *, undone: bool) -> dict[str, Metric]:
        """The version is published: slots are freed. What became of the rows, and numbers of the source's own.

        `outcome`: `trained`, or why nobody learned; `undone`: what was learned had to be taken back.
        """

    def lost(self) -> str:
        """For people: what went down with an earlier life; empty: nothing."""
        return ""

    @property
    def open(self) -> Round | None:
        """What was learned from since the last version, if anything: a version may be made of it at any time."""
        return None

    def state(self) -> Tree | None:
        """What a checkpoint keeps of it."""
        return None

    def restore(self, state: Tree) -> None:
        """Go on from `state`."""
        return


class FreshSource(BatchSource):
    """Fragments as they come, once each."""

    replays = False

    def __init__(self, samples: SampleReader) -> None:
        self._samples = samples

    def lost(self) -> str:
        rows, kept = self._samples.lost
        said = f"; {rows:,} rows that it was learning from are lost" if rows else ""
        return said + (f"; its {kept:,} rows of replay are lost" if kept else "")

    def ready(self, oldest: int) -> bool:
        return self._samples.ready(oldest)

    def take(self, timeout: float, version: int, oldest: int) -> Round | None:
        taken = self._samples.take(timeout, oldest)
        if taken is None:
            return None
        steps, rows = sum(int(posted.header["steps"]) for posted in taken), sum(posted.rows for posted in taken)
        lag = version - min(posted.version for posted in taken)
        self._batch = join([posted.fragment for posted in taken])
        return Round(steps, rows, lag, find_problem(self._batch), empty=not rows and not self.replays, taken=taken)

    def batches(self, round_: Round, version: int, learner: Learner) -> Iterator[Fragment]:
        yield self._batch

    def finish(self, round_: Round, outcome: str, *, undone: bool) -> dict[str, Metric]:
        del self._batch
        became = "not_finite" if undone else outcome
        self._samples.free(became)
        name = "train/rows" if became == "trained" else f"train/dropped_{became}"
        return {name: Total(round_.rows), "train/lag": Largest(round_.lag)}


class ReplaySource(FreshSource):
    """One replica's buffer: rounds go in, batches come out. Equal seeds, rounds and versions give equal batches."""

    replays = True

    def __init__(
        self, samples: SampleReader, needs: Replay, buffer: SequenceReplay, replicas: int = 1, *, saved: bool = False
    ) -> None:
        super().__init__(samples)
        self._needs, self.buffer, self._saved = needs, buffer, saved
        self._sequences, self._replicas = max(1, needs.sequences // replicas), replicas
        self._updates = self._rows = self._evicted = 0

    def batches(self, round_: Round, version: int, learner: Learner) -> Iterator[Fragment]:
        """Keep a round; then as many batches as it is worth, none of them before there are `warmup` rows."""
        before, evicted = self.buffer.inserted, self.buffer.evicted
        for posted in round_.taken:
            self.buffer.insert(posted.fragment)
        self._updates, self._rows = 0, self.buffer.inserted - before
        self._evicted = self.buffer.evicted - evicted
        # Replicas differ in rows and must begin together.
        held = float(learner.mean(torch.tensor(float(self.buffer.held)))) * self._replicas
        if held < self._needs.warmup or not self.buffer.filled:
            return
        for number in range(self._needs.updates):
            self._updates += 1
            yield join([self.buffer.sample(self._sequences, version * self._needs.updates + number, learner.steps)])

    @property
    def draws_ahead(self) -> bool:
        return self._needs.priorities is None

    def learned(self, batch: Fragment, update: Update) -> None:
        """What a batch turned out to be worth counts from the next draw on."""
        if batch.keys is not None and update.priorities is not None:
            self.buffer.revalue(batch.keys.numpy(), update.priorities.numpy())

    def finish(self, round_: Round, outcome: str, *, undone: bool) -> dict[str, Metric]:
        """What a drawn batch lacks is no fault of the round that was kept."""
        if outcome != "trained":
            return super().finish(round_, outcome, undone=False)
        self._samples.free("inserted", self._evicted)
        own = {**self.buffer.metrics(), "train/updates_per_row": Mean(self._updates / max(self._rows, 1))}
        own |= {"train/undone_rounds": Total(1)} if undone else {}
        return {**own, "train/rows": Total(round_.rows), "train/lag": Largest(round_.lag)}

    def state(self) -> Tree | None:
        return self.buffer.state_dict() if self._saved else None

    def restore(self, state: Tree) -> None:
        self.buffer.load_state_dict(state)


class BufferSource(BatchSource):
    """Buffer workers: their parts joined to batches. A version is as many as the algorithm makes of a round of rows."""

    def __init__(self, needs: Replay, reader: BatchReader) -> None:
        self._needs, self._reader = needs, reader
        self._parts: list[Part] = []
        self._newest: dict[int, dict[str, float]] = {}
        self._beta = 0.0
        self._warmup, self._updates, self._inserted = 0, 0, 0
        self._rows = self._short = self._drawn = 0

    def ready(self, oldest: int) -> bool:
        return self._reader.ready()

    def take(self, timeout: float, version: int, oldest: int) -> Round | None:
        """Whether a batch is there. What was taken before is given back."""
        self._reader.free(self._parts)
        self._parts = self._reader.take(timeout) or []
        if not self._parts:
            return None
        self._newest |= {part.shard: part.told() for part in self._parts}
        taken = [self._newest[part.shard] for part in self._parts]
        rows, steps = (int(sum(facts[name] for facts in taken)) for name in ("rows", "steps"))
        self._rows += rows
        self._inserted += rows
        self._warmup = self._warmup or rows
        self._short += len(self._parts) < self._reader.shards
        self._updates += 1
        self._drawn += 1
        return Round(steps, rows, ends_version=self._drawn >= self._needs.updates)

    def batches(self, round_: Round, version: int, learner: Learner) -> Iterator[Fragment]:
        """The batch that is there. Of one shard, its arrays are those of the slot."""
        batch = join([part.fragment for part in self._parts])
        priorities = self._needs.priorities
        if priorities is not None:
            self._beta = beta_at(priorities, learner.steps)
            chances = [(part.chances, int(self._newest[part.shard]["filled"])) for part in self._parts]
            batch.weights = torch.from_numpy(batch_weights(chances, self._beta))
        yield batch

    def learned(self, batch: Fragment, update: Update) -> None:
        """Tell every shard what its part of the batch is worth."""
        if self._needs.priorities is None or update.priorities is None:
            return
        start = 0
        for part in self._parts:
            stop = start + len(part.keys)
            self._reader.give_back(part, update.priorities[start:stop].numpy())
            start = stop

    def finish(self, round_: Round, outcome: str, *, undone: bool) -> dict[str, Metric]:
        """Numbers of the version; those of shards are added up, as each of them told with its newest part."""
        shards = list(self._newest.values())
        metrics: dict[str, Metric] = {
            "replay/held": Last(sum(facts["held"] for facts in shards)),
            "replay/evicted": Last(sum(facts["evicted"] for facts in shards)),
            "train/updates_per_row": Last(self._updates / max(self._inserted - self._warmup, 1)),
            "train/rows": Total(self._rows),
        }
        if undone:
            metrics["train/undone_rounds"] = Total(1)
        if self._short:
            metrics["train/short_batches"] = Total(self._short)
        if self._needs.priorities is not None:
            metrics |= {
                "replay/greatest_priority": Last(max(facts["greatest"] for facts in shards)),
                "replay/beta": Last(self._beta),
                "replay/stale": Last(sum(facts["stale"] for facts in shards) + self._reader.unreturned),
            }
        self._drawn = self._rows = self._short = 0
        return metrics

    @property
    def open(self) -> Round | None:
        return Round(0, 0) if self._drawn else None
