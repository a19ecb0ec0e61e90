"""Whole greedy episodes of the newest version: how a score is confirmed.

Consumes a parameter version; produces scores. Has environments of its own, so training episodes go on undisturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from shoal.api.env import Env
from shoal.api.evaluation import Scores
from shoal.evaluation.episodes import EpisodeBatch
from shoal.rollout.deal import Deal
from shoal.rollout.openings import Openings
from shoal.rollout.rollout import Watcher
from shoal.rollout.seat import Seat
from shoal.streams.parameter import ParameterReader


@dataclass(frozen=True)
class Watch:
    """How an evaluation is played that is asked for by hand."""

    seed: int
    """Of all that policies draw."""
    copies: int
    explore: bool
    """Everyone plays as in training."""
    render: bool = False
    """Environments draw themselves."""
    thoughts: bool = True
    """Policies say what they think of their decisions."""


@dataclass
class Evaluator:
    """Seats around an Env. Returns are those of the policies that are scored."""

    env: Env
    seats: list[Seat]
    readers: list[ParameterReader] = field(default_factory=list)
    scored: list[str] = field(default_factory=list)
    deal: Callable[[int], Deal | None] = lambda seed: None
    """Who plays whom, dealt by a seed; None: as the seats say."""
    openings: Callable[[int], Openings | None] = lambda seed: None
    """How episodes begin, by a seed; None: policies decide from the first step on."""
    selves: Collection[str] = ()
    """Those that play as the version that is evaluated, scored or not."""

    @property
    def first(self) -> Evaluator:
        """For one episode to look at."""
        return self

    def evaluate(
        self, episodes: int, *, seed: int, watcher: Watcher | None = None, tell: Callable[[str], None] | None = None
    ) -> Scores:
        """Play with the newest version of every policy. `tell` hears how far it is, a word per step."""
        batch = self.begin(episodes, seed=seed, watcher=watcher)
        while not batch.over:
            batch.step()
            if tell is not None:
                tell(
                    f"evaluating: {batch.ended:,} of {episodes:,} episodes after {batch.steps:,} steps of each env copy"
                )
        return batch.scores()

    def begin(
        self, episodes: int, *, seed: int, seconds: float | None = None, timeout: float = 60.0,
        watcher: Watcher | None = None,
    ) -> EpisodeBatch:  # fmt: skip
        """The same, a step at a time."""
        for reader in self.readers:
            reader.latest()
        return EpisodeBatch(
            self.env, self.seats, episodes, seed=seed, scored=self.scored, deal=self.deal(seed),
            seconds=seconds, timeout=timeout, watcher=watcher, openings=self.openings(seed), selves=self.selves,
        )  # fmt: skip

    def close(self) -> None:
        """Free the environments."""
        self.env.close()
