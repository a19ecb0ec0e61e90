"""Games of any two players: checkpoints of runs, members of leagues, functions. Both play every side equally often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoal.api.env import Array, Env, Episode
from shoal.api.league import MATCH
from shoal.api.policy_spec import Opponent
from shoal.api.program import Program
from shoal.base.errors import InputError
from shoal.evaluation.evaluator import Evaluator, Watch
from shoal.evaluation.matches import Schedule
from shoal.evaluation.opponents import Standin, standin_of, standin_seat
from shoal.evaluation.sides import Side
from shoal.rollout.seat import Seat

BATCH = 32
"""Games that are played at once, or a few more."""


class Job(NamedTuple):
    """Some games of two players, by their places among all. What comes of it follows from this alone."""

    first: int
    second: int
    games: int
    seed: int


@dataclass(frozen=True)
class Manner:
    """How games are played."""

    sides: list[Side]
    """Of the first of two players, in turn."""
    draws: tuple[bool, ...]
    """By player: it acts as in training, not greedily."""
    plies: int
    """Steps of an opening."""

    @property
    def batch(self) -> int:
        """Games that are played at once, as many from each side: a job has no more."""
        return -(-BATCH // len(self.sides)) * len(self.sides)


class Arena:
    """Plays jobs in the copies of `env`, one after the other. The opponents of `program` are the players, loaded when they play."""

    def __init__(self, program: Program, env: Env, manner: Manner) -> None:
        self._program, self._env, self._manner = program, env, manner
        places = [place for side in manner.sides for places in side.values() for place in places]
        self._roles = [list(dict.fromkeys(p.policy for p in places if p.own is own)) for own in (True, False)]
        self._loaded: dict[tuple[int, str], Standin] = {}

    def play(self, job: Job, beat: Callable[[], None]) -> tuple[Array, bool]:
        """The matches, as a journal has them, and whether all were one and the same. `beat`: called before each step."""
        seats, (own, other) = self._seats(job)
        schedule, env = Schedule(self._manner.sides, [other], own), self._env
        evaluator = Evaluator(
            env, seats, deal=schedule.dealing(env), openings=schedule.opening(env, self._manner.plies)
        )
        batch = evaluator.begin(job.games, seed=job.seed, timeout=self._program.experiment.env.timeout)
        while not batch.over:
            beat()
            batch.step()
        found = [self._record(job, game, schedule, episode) for game, episode in batch.counted().items()]
        return np.array(found, MATCH), batch.repeated

    def _seats(self, job: Job) -> tuple[list[Seat], list[dict[str, str]]]:
        """Those of both, and the names of each one's: policy of the run -> seat."""
        seats, names = [], []
        for number, roles in zip((job.first, job.second), self._roles, strict=True):
            label, copies = self._program.opponents[number].name, self._env.num_envs
            watch = Watch(job.seed, copies, explore=self._manner.draws[number], thoughts=False)
            names.append({role: f"{label} as {role}" for role in roles})
            for role, name in names[-1].items():
                spec = self._program.policies[role]
                standin = self._standin(number, role)
                seats.append(standin_seat(name, spec, standin, copies * len(spec.columns), watch))
        return seats, names

    def _standin(self, number: int, role: str) -> Standin:
        if (number, role) not in self._loaded:
            opponent, spec = self._program.opponents[number], self._program.policies[role]
            self._check(opponent, role, spec.home)
            self._loaded[number, role] = standin_of(opponent, role, self._env, spec)
        return self._loaded[number, role]

    def _check(self, opponent: Opponent, role: str, group: str) -> None:
        source, seen = opponent.sources.get(role), self._env.groups[group]
        if source is not None and source.policy.group.observation_space != seen.observation_space:
            raise InputError(f"{opponent.name}: it does not see what one agent of '{group}' sees, so it cannot play it")

    def _record(self, job: Job, game: int, schedule: Schedule, episode: Episode) -> tuple[float, ...]:
        own, other = earned(schedule.side(game), episode)
        side = game % len(self._manner.sides)
        return (job.first, job.second, side, 1, 0, 0, 0, episode.length, episode.row, game, own, other)


def earned(side: Side, episode: Episode) -> tuple[float, float]:
    """What both sides earned, each on average over its agents."""
    parts: tuple[list[float], list[float]] = ([], [])
    for group, places in side.items():
        for place, value in zip(places, episode.returns[group].tolist(), strict=True):
            parts[not place.own].append(value)
    return float(np.mean(parts[0])), float(np.mean(parts[1]))
