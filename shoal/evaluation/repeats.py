"""Whether episodes are one and the same: watches the first of every env copy, and stops looking at the first difference."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from shoal.api.env import Array, Episode, Step
from shoal.base.tree import tree_leaves
from shoal.rollout.rollout import Watcher
from shoal.rollout.seat import Seat
from shoal.streams.inference import Answer


class Repeats(Watcher):
    """Compares env copies that the same players play in: what is seen and what is done there.

    players   of every copy; those with equal ones are compared
    watcher   who watches besides
    """

    def __init__(self, players: Sequence[Hashable], watcher: Watcher | None = None) -> None:
        first = {who: row for row, who in reversed(list(enumerate(players)))}
        self._model = np.array([first[who] for who in players])
        self._compared = self._model != np.arange(len(players))
        self._under_way = np.ones(len(players), np.bool_)
        self._differ = False
        self._watcher = watcher

    @property
    def found(self) -> bool:
        """Once all first episodes ended: all copies with the same players saw and did the same."""
        return not self._differ and bool(self._compared.any())

    def start(self, step: Step) -> None:
        self._see(step)
        if self._watcher is not None:
            self._watcher.start(step)

    def act(self, actions: dict[str, Array], answers: dict[Seat, Answer]) -> None:
        if not self._over:
            for group, turn in self._step.turns.items():
                acting = turn.acting.reshape(*turn.acting.shape, *[1] * (actions[group].ndim - 2))
                self._compare(np.where(acting, actions[group], 0))
        if self._watcher is not None:
            self._watcher.act(actions, answers)

    def see(self, step: Step, episodes: list[Episode]) -> None:
        if not self._over:
            ended = np.zeros(len(self._model), np.bool_)
            ended[[episode.row for episode in episodes]] = True
            self._compare(ended)
            self._under_way &= ~ended
            self._see(step)
        if self._watcher is not None:
            self._watcher.see(step, episodes)

    @property
    def _over(self) -> bool:
        return self._differ or not self._under_way.any()

    def _see(self, step: Step) -> None:
        self._step = step
        for turn in step.turns.values():
            for _, leaf in tree_leaves(turn.observation):
                self._compare(leaf)

    def _compare(self, array: Array) -> None:
        """`[num_envs, ...]`, of the copies whose first episode is under way."""
        rows = np.flatnonzero(self._compared & self._under_way)
        self._differ = self._differ or not np.array_equal(array[rows], array[self._model[rows]])
