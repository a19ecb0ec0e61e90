"""Bodies in a plane, pushed by their agents and by each other: forces in, positions and velocities out.

Copies lie on the last axis of every array, so that each numpy call runs over all of them in one go. float64, as in mpe2:
contacts are stiff, and in float32 two simulations part within an episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.api.env import Array

DT, DAMPING = 0.1, 0.25
CONTACT_FORCE, CONTACT_MARGIN = 100.0, 1e-3
_REACH = 40 * CONTACT_MARGIN  # beyond it the softplus of a contact is below 1e-20

Who = slice | Array
"""Entities by number: a slice, or an index array."""


@dataclass(frozen=True)
class Body:
    """An agent or a landmark."""

    name: str = ""
    size: float = 0.05
    movable: bool = True
    silent: bool = True
    collide: bool = False
    accel: float = 5.0
    """How much force a full action gives."""
    max_speed: float = np.inf
    mass: float = 1.0


class Physics:
    """The bodies of all copies. Entities are numbered agents first, then landmarks."""

    def __init__(self, agents: Sequence[Body], landmarks: Sequence[Body], words: int, num_envs: int) -> None:
        bodies = [*agents, *landmarks]
        self.agents = slice(0, len(agents))
        self.landmarks = slice(len(agents), len(bodies))
        self.position = np.zeros((len(bodies), 2, num_envs))
        self.velocity = np.zeros((len(agents), 2, num_envs))
        self.said = np.zeros((len(agents), words, num_envs))
        """What each agent said in the last step."""
        self.memory: dict[str, Array] = {}
        """What else a scenario keeps, `[..., num_envs]`."""
        self.size = np.array([body.size for body in bodies])
        self._moved = DT / np.array([body.mass for body in agents])[:, None, None]
        self._max_speed = np.array([body.max_speed for body in agents])[:, None]
        self._pairs = _colliding(agents, bodies)
        self._first_moves, self._second_moves = (
            np.array([bodies[i].movable and i < len(agents) for i in side], bool) for side in self._pairs
        )
        self._touch = self.size[self._pairs[0]] + self.size[self._pairs[1]]

    def arrays(self) -> dict[str, Array]:
        """Everything that changes."""
        return {"position": self.position, "velocity": self.velocity, "said": self.said, **self.memory}

    # ------------------------------------------------------------ for scenarios

    def offsets(self, who: Who, whom: Who) -> Array:
        """`[who, whom, 2, num_envs]`: from each to each. An index array `whom` `[who, k]` differs from one to the next."""
        targets = self.position[whom]
        return (targets if targets.ndim == 4 else targets[None]) - self.position[who][:, None]

    def distances(self, who: Who, whom: Who) -> Array:
        """`[who, whom, num_envs]`."""
        return length(self.offsets(who, whom))

    def touching(self, who: slice, whom: slice) -> Array:
        """bool `[who, whom, num_envs]`: they overlap."""
        return self.distances(who, whom) < (self.size[who, None] + self.size[whom])[:, :, None]

    def chosen(self, numbers: Array) -> Array:
        """Positions `[2, num_envs]` of one entity per copy."""
        return np.stack([self.position[:, axis][numbers, np.arange(numbers.size)] for axis in (0, 1)])

    # ------------------------------------------------------------ one step

    def step(self, force: Array) -> None:
        """Move by one tick under the agents' own `force` `[agents, 2, num_envs]`, which is overwritten."""
        if self._touch.size:
            self._push(force)
        self.position[self.agents] += self.velocity * DT
        self.velocity *= 1 - DAMPING
        force *= self._moved
        self.velocity += force
        if np.isfinite(self._max_speed).any():
            speed = length(self.velocity)
            over = speed > self._max_speed
            slower = np.divide(self._max_speed, speed, out=np.ones_like(speed), where=over)
            self.velocity *= slower[:, None]

    def _push(self, force: Array) -> None:
        """Add the contact forces. Few bodies touch at a time, so all but the near pairs are left out early."""
        first, second = self._pairs
        apart = self.position[first] - self.position[second]
        distance = length(apart)
        pair, copy = np.nonzero(distance < (self._touch + _REACH)[:, None])
        if not pair.size:
            return
        gap = distance[pair, copy]
        depth = np.logaddexp(0.0, (self._touch[pair] - gap) / CONTACT_MARGIN) * CONTACT_MARGIN
        strength = CONTACT_FORCE * depth / np.maximum(gap, 1e-12)
        moves, yields = self._first_moves[pair], self._second_moves[pair]
        for axis in (0, 1):
            push = strength * apart[pair, axis, copy]
            np.add.at(force[:, axis], (first[pair[moves]], copy[moves]), push[moves])
            np.subtract.at(force[:, axis], (second[pair[yields]], copy[yields]), push[yields])


def length(vectors: Array) -> Array:
    """The Euclidean length of `[..., 2, num_envs]`."""
    square = np.square(vectors)
    return np.sqrt(square[..., 0, :] + square[..., 1, :])


def _colliding(agents: Sequence[Body], bodies: Sequence[Body]) -> tuple[Array, Array]:
    """Pairs that push each other, as two index arrays. Landmarks never move, so a pair has an agent."""
    pairs = [
        (i, j)
        for i, one in enumerate(agents)
        for j, other in enumerate(bodies)
        if i < j and one.collide and other.collide
    ]
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    return first, second


# ---------------------------------------------------------------- seeing only who is near


def nearest(offsets: Array, count: int) -> Array:
    """`[who, min(count, whom), 1, num_envs]`: which of `offsets` `[who, whom, 2, num_envs]` are nearest, nearest first."""
    return np.argsort(length(offsets), axis=1)[:, :count, None]


def pick(values: Array, order: Array, count: int) -> Array:
    """`values` `[who, whom, k, num_envs]` of those in `order`, filled up with zeros to `count`."""
    picked = np.take_along_axis(values, order, axis=1)
    missing = count - picked.shape[1]
    return np.pad(picked, ((0, 0), (0, missing), (0, 0), (0, 0))) if missing else picked
