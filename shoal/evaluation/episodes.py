"""Evaluating a policy: whole episodes, one version, seeds of their own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from shoal.api.env import Env, Episode
from shoal.api.evaluation import Scores
from shoal.rollout.deal import Deal
from shoal.rollout.rollout import Progress, Rollout, Watcher, run_one
from shoal.rollout.seat import Seat

MAX_COPIES = 100
"""Env copies an evaluation uses at most."""


def copies_for(episodes: int, most: int = MAX_COPIES) -> int:
    """How many env copies an evaluation should have."""
    return math.ceil(episodes / math.ceil(episodes / most))


class EpisodeBatch:
    """All policies play whole episodes, one step of all copies at a time.

    Every copy plays its share of `episodes` and no more: otherwise short episodes, finished first, would crowd out long ones. For
    the same reason a limit of `seconds` is one on when episodes begin: what began in time counts, however long it then is.
    """

    def __init__(
        self, env: Env, seats: list[Seat], episodes: int, *, seed: int, scored: list[str], deal: Deal | None = None,
        seconds: float | None = None, timeout: float = 60.0, clock: Callable[[], float] = time.monotonic,
        watcher: Watcher | None = None,
    ) -> None:  # fmt: skip
        self._env, self._episodes, self._scored, self._clock = env, episodes, scored, clock
        self._share = math.ceil(episodes / env.num_envs)
        self._rollout = Rollout(env, seats, seed=seed, deal=deal, timeout=timeout, watcher=watcher)
        self._finished: list[list[Episode]] = [[] for _ in range(env.num_envs)]
        self._due = [self._share] * env.num_envs
        self.steps = 0
        """Of every copy."""
        self._deadline = math.inf if seconds is None else clock() + seconds

    @property
    def over(self) -> bool:
        """Every copy has played all that is due of it."""
        return all(len(own) >= due for own, due in zip(self._finished, self._due, strict=True))

    @property
    def ended(self) -> int:
        """Episodes that are over and count."""
        return sum(min(len(own), due) for own, due in zip(self._finished, self._due, strict=True))

    def step(self) -> None:
        """Go on by a step of every copy."""
        self.steps += 1
        if self._clock() >= self._deadline:  # an episode is under way in every copy: it is the last
            self._due = [min(due, len(own) + 1) for own, due in zip(self._finished, self._due, strict=True)]
            self._deadline = math.inf
        progress = Progress()
        run_one(self._rollout, progress)
        for episode in progress.episodes:
            self._finished[episode.row].append(episode)

    def scores(self) -> Scores:
        """What was played, once it is over."""
        rounds = range(self._share)
        due = zip(self._finished, self._due, strict=True)
        own = [episodes[:count] for episodes, count in due]
        counted = [episodes[i] for i in rounds for episodes in own if i < len(episodes)][: self._episodes]
        returns = [sum(float(episode.played[policy].sum()) for policy in self._scored) for episode in counted]
        by_policy = {
            name: float(np.concatenate([e.played[name] for e in counted]).mean()) for name in counted[0].played
        }
        lengths = [int(episode.length) for episode in counted]
        return Scores(returns, lengths, by_policy, _game(self._env, counted), _metrics(counted))


def _game(env: Env, episodes: list[Episode]) -> float | None:
    everyone = np.array([np.concatenate(list(episode.returns.values())) for episode in episodes])
    if everyone.shape[1] == 1:
        return None
    return float((everyone.sum(1) if env.game_return == "sum" else everyone.mean(1)).mean())


def _metrics(episodes: list[Episode]) -> dict[str, float]:
    names = dict.fromkeys(name for episode in episodes for name in episode.metrics)
    return {name: float(np.mean([e.metrics[name] for e in episodes if name in e.metrics])) for name in names}
