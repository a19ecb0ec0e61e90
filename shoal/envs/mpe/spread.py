"""`shoal/spread` and `shoal/simple`: go to the landmarks."""

from __future__ import annotations

import numpy as np

from shoal.api.env import Array
from shoal.envs.mpe.particles import Scenario
from shoal.envs.mpe.physics import Body, Physics, nearest, pick

AGENT = "agent"


class Simple(Scenario):
    """One agent, one landmark: the reward is minus the squared distance. mpe2's `simple_v3`."""

    def __init__(self) -> None:
        super().__init__([Body("agent_0")], [Body()])

    def observe(self, physics: Physics) -> dict[str, list[Array]]:
        """The own velocity, and where the landmark is."""
        return {AGENT: [physics.velocity, physics.offsets(physics.agents, physics.landmarks)]}

    def reward(self, physics: Physics) -> Array:
        """Minus the squared distance."""
        return -np.square(physics.offsets(physics.agents, physics.landmarks)).sum(axis=2)[:, 0]


class Spread(Scenario):
    """`N` agents cover `N` landmarks and keep out of each other's way. mpe2's `simple_spread_v3`.

    All earn minus the distance from each landmark to its nearest agent, and each alone -1 for everyone it touches;
    `local_ratio` is the weight of the second. With `curriculum`, touching costs nothing in stage 0.
    """

    game_return = "mean"
    CAPTURE_RADIUS = 0.1

    def __init__(
        self,
        N: int = 3,  # noqa: N803 (mpe2's name)
        local_ratio: float = 0.5,
        curriculum: bool = False,
        curriculum_stage: int = 0,
        terminate_on_success: bool = False,
        num_agent_neighbors: int | None = None,
        num_landmark_neighbors: int | None = None,
    ) -> None:
        if not 0.0 <= local_ratio <= 1.0:
            raise ValueError(f"local_ratio is a share between 0 and 1, not {local_ratio}")
        agents = [Body(f"agent_{i}", size=0.15, collide=True) for i in range(N)]
        super().__init__(agents, [Body()] * N, words=2)
        self._local_ratio, self._terminates = local_ratio, terminate_on_success
        self._fine = 0.0 if curriculum and curriculum_stage == 0 else 1.0
        self._agents_seen, self._landmarks_seen = num_agent_neighbors, num_landmark_neighbors

    def observe(self, physics: Physics) -> dict[str, list[Array]]:
        """The own velocity and position, where landmarks and others are, and what others say: nothing."""
        landmarks, others = physics.offsets(physics.agents, physics.landmarks), self.others[AGENT]
        there, said = physics.offsets(physics.agents, others), physics.said[others]
        if self._landmarks_seen is not None:
            landmarks = pick(landmarks, nearest(landmarks, self._landmarks_seen), self._landmarks_seen)
        if self._agents_seen is not None:
            order = nearest(there, self._agents_seen)
            there, said = (pick(values, order, self._agents_seen) for values in (there, said))
        return {AGENT: [physics.velocity, physics.position[physics.agents], landmarks, there, said]}

    def reward(self, physics: Physics) -> Array:
        """The uncovered distance for all, and the touches for each; everyone touches itself, which does not count."""
        uncovered = physics.distances(physics.agents, physics.landmarks).min(axis=0).sum(axis=0)
        touches = physics.touching(physics.agents, physics.agents).sum(axis=1) - 1
        return -(1 - self._local_ratio) * uncovered - (self._local_ratio * self._fine) * touches

    def solved(self, physics: Physics) -> Array | None:
        """Every landmark has an agent, if that ends the episode."""
        if not self._terminates:
            return None
        return (physics.distances(physics.agents, physics.landmarks).min(axis=0) < self.CAPTURE_RADIUS).all(axis=0)
