"""One adversary that must find out, or spoil, what the others go for: `shoal/adversary`, `shoal/push`."""

from __future__ import annotations

import numpy as np

from shoal.api.env import Array
from shoal.envs.mpe.particles import Scenario
from shoal.envs.mpe.physics import Body, Physics, length, nearest, pick
from shoal.envs.native.row_random import RowRandom

ADVERSARY, AGENT = "adversary", "agent"


def _to_goal(physics: Physics) -> Array:
    """`[agents, 2, num_envs]`: from each agent to the goal."""
    return physics.chosen(physics.memory["goal"] + physics.landmarks.start) - physics.position[physics.agents]


class Adversary(Scenario):
    """`N` agents know which of `N` landmarks is the goal, the adversary does not. mpe2's `simple_adversary_v3`.

    The adversary earns minus its distance to the goal; the agents its distance minus that of the nearest of them.
    """

    def __init__(
        self,
        N: int = 2,  # noqa: N803 (mpe2's name)
        num_agent_neighbors: int | None = None,
        num_landmark_neighbors: int | None = None,
    ) -> None:
        names = ["adversary_0", *(f"agent_{i}" for i in range(N))]
        super().__init__([Body(name, size=0.15) for name in names], [Body(size=0.08)] * N)
        self._agents_seen, self._landmarks_seen = num_agent_neighbors, num_landmark_neighbors

    def memory(self, num_envs: int) -> dict[str, Array]:
        """Which landmark is the goal."""
        return {"goal": np.zeros(num_envs, np.int64)}

    def begin(self, physics: Physics, rows: Array, random: RowRandom) -> None:
        """A goal at random."""
        physics.memory["goal"][rows] = random.integers(len(self.landmarks))

    def observe(self, physics: Physics) -> dict[str, list[Array]]:
        """Where landmarks and others are; the agents first of all where the goal is."""
        seen = {stem: self._places(physics, stem) for stem in self.members}
        return {**seen, AGENT: [_to_goal(physics)[1:], *seen[AGENT]]}

    def _places(self, physics: Physics, stem: str) -> list[Array]:
        landmarks = physics.offsets(self.members[stem], physics.landmarks)
        others = physics.offsets(self.members[stem], self.others[stem])
        counts = (self._landmarks_seen, self._agents_seen)
        return [
            offsets if count is None else pick(offsets, nearest(offsets, count), count)
            for offsets, count in zip((landmarks, others), counts, strict=True)
        ]

    def reward(self, physics: Physics) -> Array:
        """The adversary's, then the same for all agents."""
        away = length(_to_goal(physics))
        good = away[0] - away[1:].min(axis=0)
        return np.concatenate([-away[:1], np.broadcast_to(good, away[1:].shape)])


class Push(Scenario):
    """The agent goes to its goal, one of 2 landmarks; the adversary does not know which and pushes. mpe2's `simple_push_v3`.

    The agent earns minus its distance to the goal, the adversary the agent's distance minus its own.
    """

    LANDMARK_COLORS = np.array([[0.1, 0.9, 0.1], [0.1, 0.1, 0.9]])
    AGENT_COLORS = np.array([[0.25, 0.75, 0.25], [0.25, 0.25, 0.75]])

    def __init__(self) -> None:
        super().__init__([Body("adversary_0", collide=True), Body("agent_0", collide=True)], [Body()] * 2)

    def memory(self, num_envs: int) -> dict[str, Array]:
        """Which landmark is the goal."""
        return {"goal": np.zeros(num_envs, np.int64)}

    def begin(self, physics: Physics, rows: Array, random: RowRandom) -> None:
        """A goal at random."""
        physics.memory["goal"][rows] = random.integers(2)

    def observe(self, physics: Physics) -> dict[str, list[Array]]:
        """The adversary: velocity, landmarks, the agent. The agent: the goal, its colour and the landmarks' as well."""
        landmarks = physics.offsets(physics.agents, physics.landmarks)
        other = physics.offsets(physics.agents, np.array([[1], [0]]))
        color = self.AGENT_COLORS.T[:, physics.memory["goal"]][None]
        colors = np.broadcast_to(self.LANDMARK_COLORS.reshape(1, 6, 1), (1, 6, color.shape[-1]))
        return {
            ADVERSARY: [physics.velocity[:1], landmarks[:1], other[:1]],
            AGENT: [physics.velocity[1:], _to_goal(physics)[1:], color, landmarks[1:], colors, other[1:]],
        }

    def reward(self, physics: Physics) -> Array:
        """The adversary's, then the agent's."""
        adversary, agent = length(_to_goal(physics))
        return np.stack([agent - adversary, -agent])
