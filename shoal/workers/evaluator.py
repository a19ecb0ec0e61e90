"""Whole greedy episodes of the newest version: how a score is confirmed.

Consumes a parameter version; produces scores. Has worlds of its own, so training episodes go on undisturbed.
"""

from __future__ import annotations

from shoal.api.env import Env
from shoal.rollout.evaluate import Scores, play
from shoal.rollout.seat import Seat
from shoal.streams.parameter import ParameterReader


class Evaluator:
    """Seats around an Env that only ever play greedily."""

    def __init__(self, env: Env, seats: list[tuple[Seat, ParameterReader]]) -> None:
        self._env, self._seats = env, seats

    def evaluate(self, episodes: int, *, seed: int) -> Scores:
        """Play with the newest version of every policy."""
        for _, reader in self._seats:
            reader.latest()
        return play(self._env, [seat for seat, _ in self._seats], episodes, seed=seed)

    def close(self) -> None:
        """Free the worlds."""
        self._env.close()
