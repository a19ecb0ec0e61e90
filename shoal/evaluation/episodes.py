"""Evaluating a policy: whole episodes, one version, seeds of their own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from shoal.api.env import Env, Episode
from shoal.api.evaluation import Scores
from shoal.api.experiment import EnvConfig
from shoal.envs.registry import outside_of
from shoal.evaluation.repeats import Repeats
from shoal.rollout.deal import Deal
from shoal.rollout.openings import Openings
from shoal.rollout.rollout import Progress, Rollout, Watcher, run_one
from shoal.rollout.seat import Seat

MAX_COPIES = 100
"""Env copies an evaluation uses at most."""


def copies_for(episodes: int, env: EnvConfig, most: int = MAX_COPIES) -> int:
    """How many env copies an evaluation should have. Games that are processes of their own: no more than in training."""
    if outside_of(env.id) is not None:
        most = min(most, env.num_envs)
    return math.ceil(episodes / math.ceil(episodes / most))


class EpisodeBatch:
    """All policies play whole episodes, one step of all copies at a time.

    Every copy plays its share of `episodes` and no more: otherwise short episodes, finished first, would crowd out long ones. For
    the same reason a limit of `seconds` is one on when episodes begin: what began in time counts, however long it then is.
    """

    def __init__(
        self, env: Env, seats: list[Seat], episodes: int, *, seed: int, scored: list[str], deal: Deal | None = None,
        seconds: float | None = None, timeout: float = 60.0, clock: Callable[[], float] = time.monotonic,
        watcher: Watcher | None = None, openings: Openings | None = None, selves: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._env, self._episodes, self._scored, self._clock = env, episodes, scored, clock
        self._selves = selves
        self._share = math.ceil(episodes / env.num_envs)
        self._repeats = Repeats([deal.players(row) if deal else () for row in range(env.num_envs)], watcher)
        self._rollout = Rollout(
            env, seats, seed=seed, deal=deal, timeout=timeout, watcher=self._repeats, openings=openings
        )  # fmt: skip
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

    def counted(self) -> dict[int, Episode]:
        """What was played, once it is over: number -> episode, all first ones of the copies before all second ones."""
        copies, due = self._env.num_envs, [own[:most] for own, most in zip(self._finished, self._due, strict=True)]
        numbered = {i * copies + row: episode for row, own in enumerate(due) for i, episode in enumerate(own)}
        return dict(sorted(numbered.items())[: self._episodes])

    @property
    def repeated(self) -> bool:
        """All that the same players played was one and the same."""
        return self._repeats.found

    def scores(self) -> Scores:
        """What came of it, once it is over."""
        episodes = list(self.counted().values())
        scores = scores_of(self._env, episodes, self._scored)
        return replace(scores, repeated=self.repeated, cancels=_cancel(episodes, self._selves))


def scores_of(env: Env, episodes: list[Episode], scored: Collection[str]) -> Scores:
    """Of some episodes; their return is that of the policies that are scored."""
    returns = [sum(float(e.played[policy].sum()) for policy in scored if policy in e.played) for e in episodes]
    earned: dict[str, list[np.ndarray]] = {}
    for episode in episodes:
        for name, values in episode.played.items():
            earned.setdefault(name, []).append(values)
    by_policy = {name: float(np.concatenate(values).mean()) for name, values in earned.items() if sum(map(len, values))}
    lengths = [int(episode.length) for episode in episodes]
    return Scores(returns, lengths, by_policy, _game(env, episodes), _metrics(episodes))


def _cancel(episodes: list[Episode], selves: Collection[str]) -> bool:
    """Everyone was played by the same version, and what one of them earned another lost."""
    everyone = [np.concatenate(list(episode.returns.values())) for episode in episodes]
    alone = all(name in selves for episode in episodes for name, values in episode.played.items() if len(values))
    return alone and any(values.any() for values in everyone) and all(abs(values.sum()) < 1e-6 for values in everyone)


def _game(env: Env, episodes: list[Episode]) -> float | None:
    everyone = np.array([np.concatenate(list(episode.returns.values())) for episode in episodes])
    if everyone.shape[1] == 1:
        return None
    return float((everyone.sum(1) if env.game_return == "sum" else everyone.mean(1)).mean())


def _metrics(episodes: list[Episode]) -> dict[str, float]:
    names = dict.fromkeys(name for episode in episodes for name in episode.metrics)
    return {name: float(np.mean([e.metrics[name] for e in episodes if name in e.metrics])) for name in names}
