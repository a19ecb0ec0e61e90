"""`shoal/foraging`: players of different strength gather food on a grid, some of it only together.

In the manner of level-based foraging (Papoudakis et al. 2021), not equal to it.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome
from shoal.envs.native.row_random import RowRandom

GROUP = "player"
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1], [0, 0]])
"""Stay, up, down, left, right, gather."""
GATHER = 5


class Foraging(NativeEnv):
    """Players who gather beside a food take it if their levels add up to the food's.

    They share its level by their own; all food of an episode is worth 1. The episode ends when nothing is left, or is cut
    off after `max_steps`. With `cooperative` every food needs everyone. Food lies where four players can stand around it.
    """

    best_return = 1.0
    """Of all players together."""

    def __init__(
        self,
        num_envs: int,
        *,
        first_slot: int = 0,
        players: int = 2,
        food: int = 2,
        size: int = 7,
        max_level: int = 2,
        cooperative: bool = False,
        max_steps: int = 50,
    ) -> None:
        beds = ((size - 1) // 2) ** 2
        if not 1 <= players <= 4 or not 1 <= food <= beds or min(max_level, max_steps) < 1:
            raise ValueError(
                f"1 to 4 players and 1 to {beds} food fit on a grid of {size}; levels and steps are at least 1"
            )
        width = 3 * (players + food)
        bound = max(size, players * max_level)
        agents = tuple(f"player_{i}" for i in range(players))
        groups = {GROUP: AgentGroup(agents, Box(-bound, bound, (width,), np.float32), Discrete(len(MOVES)))}
        super().__init__(groups, num_envs, first_slot)
        self._size, self._max_level, self._cooperative, self._max_steps = size, max_level, cooperative, max_steps
        cells = np.stack(np.divmod(np.arange(size * size), size), axis=1)
        bed = (cells % 2 == 1).all(axis=1) & (cells < size - 1).all(axis=1)
        self._beds, self._paths = cells[bed], cells[~bed]
        self.arrays["place"] = np.zeros((num_envs, players, 2), np.int64)
        self.arrays["level"] = np.ones((num_envs, players), np.int64)
        self.arrays["food"] = np.zeros((num_envs, food, 2), np.int64)
        self.arrays["food_level"] = np.zeros((num_envs, food), np.int64)
        """0: eaten."""
        self.arrays["worth"] = np.ones(num_envs)

    def begin(self, rows: Array) -> None:
        random = self.random(rows)
        players, food = self.arrays["place"].shape[1], self.arrays["food"].shape[1]
        level = random.integers(self._max_level, players).T + 1
        strength = level.sum(axis=1, keepdims=True)
        share = np.ones((rows.size, food)) if self._cooperative else random.uniform(0, 1, food).T
        needed = np.maximum(np.ceil(share * strength).astype(np.int64), 1)
        self.arrays["level"][rows], self.arrays["food_level"][rows] = level, needed
        self.arrays["worth"][rows] = needed.sum(axis=1)
        self.arrays["place"][rows] = _distinct(self._paths, players, random)
        self.arrays["food"][rows] = _distinct(self._beds, food, random)

    def advance(self, actions: ByGroup) -> Outcome:
        self._move(actions[GROUP])
        reward = self._gather(actions[GROUP] == GATHER)
        done = np.logical_and.reduce(self.arrays["food_level"] == 0, axis=1)
        cut = (self.time >= self._max_steps) & ~done
        return self.ended_together({GROUP: reward}, done, cut)

    def _move(self, actions: Array) -> None:
        """Walls, food and those who want the same cell stop a move."""
        place, food = self.arrays["place"], self.arrays["food"]
        target = place + MOVES[actions]
        eaten = self.arrays["food_level"] == 0
        stopped = ((target < 0) | (target >= self._size)).any(axis=2)
        stopped |= (_same(target, food) & ~eaten[:, None]).any(axis=2)
        target = np.where(stopped[:, :, None], place, target)
        # Who is stopped stays where it is, and that may stop the next one.
        while (clash := (_same(target, target).sum(axis=2) > 1) & (target != place).any(axis=2)).any():
            target = np.where(clash[:, :, None], place, target)
        place[...] = target

    def _gather(self, gathers: Array) -> Array:
        """What each player earns `[num_envs, players]`."""
        arrays = self.arrays
        level, wanted = arrays["level"], arrays["food_level"]
        beside = np.abs(arrays["place"][:, :, None] - arrays["food"][:, None]).sum(axis=3) == 1
        beside &= gathers[:, :, None] & (wanted > 0)[:, None]
        beside &= beside.cumsum(axis=2) == 1  # one food at a time
        power = (beside * level[:, :, None]).sum(axis=1)
        taken = (power >= wanted) & (power > 0)
        value = np.where(taken, wanted / np.maximum(power, 1), 0.0) / arrays["worth"][:, None]
        wanted[taken] = 0
        return (beside * value[:, None]).sum(axis=2) * level

    def observe(self) -> ByGroup:
        """Row, column and level of oneself, then of all others and of the food, seen from oneself; eaten food is zeros."""
        place, level, food, wanted = (self.arrays[name] for name in ("place", "level", "food", "food_level"))
        own = np.concatenate([place, level[:, :, None]], axis=2)
        players = np.concatenate([place[:, None] - place[:, :, None], self._beside(level)], axis=3)
        meals = np.concatenate([food[:, None] - place[:, :, None], self._beside(wanted)], axis=3)
        meals *= (wanted > 0)[:, None, :, None]
        count = place.shape[1]
        others = players[:, ~np.eye(count, dtype=bool)].reshape(self.num_envs, count, -1)
        parts = [own, others, meals.reshape(self.num_envs, count, -1)]
        return {GROUP: np.concatenate(parts, axis=2, dtype=np.float32)}

    def _beside(self, levels: Array) -> Array:
        return np.repeat(levels[:, None, :, None], self.arrays["place"].shape[1], axis=1)

    def global_state(self, seen: ByGroup) -> Array:
        """What all players see."""
        return seen[GROUP].reshape(self.num_envs, -1)


def _same(cells: Array, others: Array) -> Array:
    """bool `[num_envs, cells, others]`."""
    return (cells[:, :, None] == others[:, None]).all(axis=3)


def _distinct(cells: Array, count: int, random: RowRandom) -> Array:
    """`[rows, count, 2]`: different cells at random."""
    order = random.uniform(0, 1, len(cells)).argsort(axis=0)[:count]
    return cells[order.T]
