"""Agents that take up places, each place one agent: `shoal/formation`, `shoal/line`."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np

from shoal.api.env import Array
from shoal.envs.mpe.particles import Scenario
from shoal.envs.mpe.physics import Body, Physics, length
from shoal.envs.native.row_random import RowRandom

AGENT = "agent"
MAX_AGENTS = 12
"""The matching looks at every subset of the places."""


def match(cost: Array) -> Array:
    """`[agents, places, num_envs]` -> `[agents, num_envs]`: each agent's cost in the cheapest one-to-one matching.

    The first k agents on a set of k places cost least if one of the places goes to the last of them and the others to the
    rest at their least: subset by subset, from small to large.
    """
    agents, _, copies = cost.shape
    total, chosen = np.zeros((1, copies)), np.zeros((1, 0, copies))
    for agent, (places, rest) in enumerate(_subsets(agents)):
        options = total[rest] + cost[agent][places]
        best = options.argmin(axis=1)[:, None]
        total = np.take_along_axis(options, best, axis=1)[:, 0]
        own = np.take_along_axis(cost[agent][places], best, axis=1)
        before = np.take_along_axis(chosen[rest], best[:, :, None], axis=1)[:, 0]
        chosen = np.concatenate([before, own], axis=1)
    return chosen[0]


@lru_cache
def _subsets(places: int) -> tuple[tuple[Array, Array], ...]:
    """For k = 1, 2, ...: the sets of k places `[sets, k]`, and for each place in them which smaller set is left without it."""
    known: dict[tuple[int, ...], int] = {(): 0}
    layers = []
    for size in range(1, places + 1):
        sets = list(combinations(range(places), size))
        rest = [[known[each[:i] + each[i + 1 :]] for i in range(size)] for each in sets]
        layers.append((np.array(sets), np.array(rest)))
        known = {each: number for number, each in enumerate(sets)}
    return tuple(layers)


class _Places(Scenario):
    """All earn minus the mean distance, each at most 2, to the places they are matched to."""

    game_return = "mean"
    THRESHOLD = 0.05

    def __init__(self, count: int, size: float, landmarks: list[Body], terminate_on_success: bool) -> None:
        if not 1 <= count <= MAX_AGENTS:
            raise ValueError(f"N is from 1 to {MAX_AGENTS}, not {count}")
        super().__init__([Body(f"agent_{i}", size=size, collide=True) for i in range(count)], landmarks)
        self._terminates = terminate_on_success

    def places(self, physics: Physics) -> Array:
        """`[places, 2, num_envs]`."""
        raise NotImplementedError

    def observe(self, physics: Physics) -> dict[str, list[Array]]:
        """The own velocity and position, and where the landmarks are."""
        own = [physics.velocity, physics.position[physics.agents]]
        return {AGENT: [*own, physics.offsets(physics.agents, physics.landmarks)]}

    def _away(self, physics: Physics) -> Array:
        return match(length(physics.position[physics.agents][:, None] - self.places(physics)))

    def reward(self, physics: Physics) -> Array:
        """The same for all."""
        shared = -np.minimum(self._away(physics), 2.0).mean(axis=0)
        return np.tile(shared, (len(self.agents), 1))

    def solved(self, physics: Physics) -> Array | None:
        """Everyone is in its place, if that ends the episode."""
        return np.logical_and.reduce(self._away(physics) < self.THRESHOLD, axis=0) if self._terminates else None


class Formation(_Places):
    """`N` agents form a circle of radius 0.5 around a landmark. mpe2's `simple_formation_v1`."""

    landmark_range = 0.5
    RADIUS = 0.5

    def __init__(self, N: int = 4, terminate_on_success: bool = False) -> None:  # noqa: N803 (mpe2's name)
        super().__init__(N, 0.05, [Body(size=0.03)], terminate_on_success)

    def places(self, physics: Physics) -> Array:
        """Even steps around the circle, from the smallest angle at which an agent stands."""
        middle = physics.position[physics.landmarks][0]
        offset = physics.position[physics.agents] - middle
        angle = np.arctan2(offset[:, 1], offset[:, 0])
        first = np.where(angle < 0, angle + 2 * np.pi, angle).min(axis=0)
        angles = first + np.arange(len(self.agents))[:, None] * (2 * np.pi / len(self.agents))
        return middle + self.RADIUS * np.stack([np.cos(angles), np.sin(angles)], axis=1)


class Line(_Places):
    """`N` agents form a line between two landmarks. mpe2's `simple_line_v1`."""

    landmark_range = 0.25
    LENGTH = 1.25

    def __init__(self, N: int = 4, terminate_on_success: bool = False) -> None:  # noqa: N803 (mpe2's name)
        super().__init__(N, 0.03, [Body(size=0.02)] * 2, terminate_on_success)
        self._shares = np.linspace(0.0, 1.0, N)[:, None, None]

    def begin(self, physics: Physics, rows: Array, random: RowRandom) -> None:
        """The second landmark lies in a random direction, turned on by 5 degrees at a time until it is on the screen."""
        one = physics.position[-2][:, rows]
        turns = np.radians(5) * np.arange(72)[:, None] + random.uniform(0, 2 * np.pi)
        ends = one + self.LENGTH * np.stack([np.cos(turns), np.sin(turns)], axis=1)
        inside = (np.abs(ends) < 1.0).all(axis=1)
        physics.position[-1, :, rows] = ends[inside.argmax(axis=0), :, np.arange(rows.size)]

    def places(self, physics: Physics) -> Array:
        """Even steps from one landmark to the other."""
        one, other = physics.position[physics.landmarks]
        return one + self._shares * (other - one)
