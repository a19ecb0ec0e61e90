"""Judging a policy: whole episodes, one version, seeds of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from shoal.api.env import Env, Episode
from shoal.rollout.deal import Deal
from shoal.rollout.rollout import Progress, Rollout, run_one
from shoal.rollout.seat import Seat

MAX_COPIES = 100
"""Env copies an evaluation uses at most."""


@dataclass(frozen=True)
class Scores:
    """Whole episodes. A return is summed over the agents of all policies that are judged."""

    returns: list[float]
    lengths: list[int]
    by_policy: dict[str, float] = field(default_factory=dict)
    """Policy -> mean return of an agent that it played; of every policy at the table."""
    game: float | None = None
    """Mean return as the game itself states it (`Env.game_return`), of all its agents; None: there is only one."""

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Spread of the returns."""
        return float(np.std(self.returns))


def copies_for(episodes: int) -> int:
    """How many env copies an evaluation should have."""
    return math.ceil(episodes / math.ceil(episodes / MAX_COPIES))


def play(
    env: Env, seats: list[Seat], episodes: int, *, seed: int, judged: list[str], deal: Deal | None = None
) -> Scores:
    """Every copy plays its share of `episodes` and no more: otherwise short episodes, finished first, would crowd out long ones."""
    share = math.ceil(episodes / env.num_envs)
    rollout = Rollout(env, seats, seed=seed, deal=deal)
    finished: list[list[Episode]] = [[] for _ in range(env.num_envs)]
    while any(len(own) < share for own in finished):
        progress = Progress()
        run_one(rollout, progress)
        for episode in progress.episodes:
            finished[episode.row].append(episode)
    counted = [own[i] for i in range(share) for own in finished][:episodes]
    returns = [sum(float(episode.played[policy].sum()) for policy in judged) for episode in counted]
    by_policy = {name: float(np.concatenate([e.played[name] for e in counted]).mean()) for name in counted[0].played}
    return Scores(returns, [episode.length for episode in counted], by_policy, _game(env, counted))


def _game(env: Env, episodes: list[Episode]) -> float | None:
    everyone = np.array([np.concatenate(list(episode.returns.values())) for episode in episodes])
    if everyone.shape[1] == 1:
        return None
    return float((everyone.sum(1) if env.game_return == "sum" else everyone.mean(1)).mean())
