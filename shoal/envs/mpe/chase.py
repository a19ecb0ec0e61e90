"""Hunters and prey: `shoal/tag`, `shoal/world-comm`."""

from __future__ import annotations

import numpy as np

from shoal.api.env import Array
from shoal.envs.mpe.particles import Scenario
from shoal.envs.mpe.physics import Body, Physics, nearest, pick

LEADER, HUNTER, PREY = "leadadversary", "adversary", "agent"
OBSTACLE = Body(size=0.2, collide=True)


def _hunter(name: str, silent: bool = True) -> Body:
    return Body(name, size=0.075, silent=silent, collide=True, accel=3.0, max_speed=1.0)


def _prey(name: str, size: float, speed: float = 1.0) -> Body:
    return Body(name, size=size, collide=True, accel=4.0 * speed, max_speed=1.3 * speed)


def beyond(position: Array) -> Array:
    """The fine `[agents, num_envs]` for leaving the screen, rising from 0 at 0.9 to 10 along each axis."""
    x = np.abs(position)
    outside = np.minimum(np.exp(2 * np.minimum(x, 3.0) - 2), 10)
    return np.where(x < 0.9, 0.0, np.where(x < 1.0, (x - 0.9) * 10, outside)).sum(axis=1)


class Tag(Scenario):
    """Slower adversaries chase faster agents around obstacles. mpe2's `simple_tag_v3`.

    Every touch of an adversary and an agent gives each adversary 10 and takes 10 from the agent, which also pays for
    leaving the screen. With `curriculum` the agents are slower in the stages 0 and 1.
    """

    landmark_range = 0.9
    SPEEDS = (0.5, 0.75, 1.0)

    def __init__(
        self,
        num_good: int = 1,
        num_adversaries: int = 3,
        num_obstacles: int = 2,
        curriculum: bool = False,
        curriculum_stage: int = 0,
        terminate_on_success: bool = False,
        num_agent_neighbors: int | None = None,
        num_landmark_neighbors: int | None = None,
    ) -> None:
        if min(num_good, num_adversaries) < 1:
            raise ValueError("num_good and num_adversaries are at least 1")
        speed = self.SPEEDS[curriculum_stage] if curriculum else 1.0
        hunters = [_hunter(f"adversary_{i}") for i in range(num_adversaries)]
        prey = [_prey(f"agent_{i}", 0.05, speed) for i in range(num_good)]
        super().__init__([*hunters, *prey], [OBSTACLE] * num_obstacles)
        self._terminates = terminate_on_success
        self._agents_seen, self._landmarks_seen = num_agent_neighbors, num_landmark_neighbors

    def observe(self, physics: Physics) -> dict[str, list[Array]]:
        """The own velocity and position, where obstacles and others are, and how fast the agents among them are."""
        return {stem: self._sight(physics, stem) for stem in self.members}

    def _sight(self, physics: Physics, stem: str) -> list[Array]:
        members, others = self.members[stem], self.others[stem]
        landmarks, there = physics.offsets(members, physics.landmarks), physics.offsets(members, others)
        good = others >= self.members[PREY].start
        if self._landmarks_seen is not None:
            landmarks = pick(landmarks, nearest(landmarks, self._landmarks_seen), self._landmarks_seen)
        if self._agents_seen is None:
            speeds = physics.velocity[others[good].reshape(len(others), -1)]
        else:
            order, count = nearest(there, self._agents_seen), self._agents_seen
            speeds = pick(physics.velocity[others] * good[:, :, None, None], order, count)
            there = pick(there, order, count)
        return [physics.velocity[members], physics.position[members], landmarks, there, speeds]

    def reward(self, physics: Physics) -> Array:
        """The same for all adversaries, then the agents' own."""
        hunters, prey = self.members[HUNTER], self.members[PREY]
        caught = physics.touching(prey, hunters)
        catch = np.broadcast_to(10.0 * caught.sum(axis=(0, 1)), (hunters.stop, caught.shape[-1]))
        return np.concatenate([catch, -10.0 * caught.sum(axis=1) - beyond(physics.position[prey])])

    def solved(self, physics: Physics) -> Array | None:
        """Every agent is caught at once, if that ends the episode."""
        if not self._terminates:
            return None
        caught = physics.touching(self.members[PREY], self.members[HUNTER])
        return np.logical_and.reduce(caught.any(axis=1), axis=0)


class WorldComm(Scenario):
    """Tag with food, forests that hide who is inside, and a leader that sees all and talks. mpe2's `simple_world_comm_v3`.

    A touch gives each adversary 5 and takes 5 from the agent. Agents want food; adversaries want to be near agents.
    """

    landmark_range = 0.9

    def __init__(
        self,
        num_good: int = 2,
        num_adversaries: int = 4,
        num_obstacles: int = 1,
        num_food: int = 2,
        num_forests: int = 2,
    ) -> None:
        if min(num_good, num_food) < 1 or num_adversaries < 2:
            raise ValueError("num_good and num_food are at least 1, num_adversaries at least 2")
        hunters = [_hunter("leadadversary_0", silent=False)]
        hunters += [_hunter(f"adversary_{i}") for i in range(num_adversaries - 1)]
        prey = [_prey(f"agent_{i}", 0.045) for i in range(num_good)]
        landmarks = [OBSTACLE] * num_obstacles + [Body(size=0.03)] * num_food + [Body(size=0.3)] * num_forests
        super().__init__([*hunters, *prey], landmarks, words=4)
        food = num_adversaries + num_good + num_obstacles
        self._food, self._forests = slice(food, food + num_food), slice(food + num_food, food + num_food + num_forests)
        self._hunters = slice(0, num_adversaries)

    def observe(self, physics: Physics) -> dict[str, list[Array]]:
        """As in tag; others only where forests allow. Then the own forests, and for adversaries the leader's words."""
        inside = physics.touching(physics.agents, self._forests)
        return {stem: self._sight(physics, stem, inside) for stem in self.members}

    def _sight(self, physics: Physics, stem: str, inside: Array) -> list[Array]:
        members, others = self.members[stem], self.others[stem]
        seen = self._visible(stem, inside)[:, :, None]
        good = others >= self.members[PREY].start
        speeds = (physics.velocity[others] * seen)[good].reshape(len(others), -1, seen.shape[-1])
        forests = np.where(inside[members], 1.0, -1.0)
        places = [physics.offsets(members, physics.landmarks), physics.offsets(members, others) * seen]
        own = [physics.velocity[members], physics.position[members], *places]
        if stem == PREY:
            return [*own, forests, speeds]
        said = physics.said[0]
        return [*own, speeds, forests, np.broadcast_to(said, (len(others), *said.shape))]

    def _visible(self, stem: str, inside: Array) -> Array:
        """bool `[agents of the stem, others, num_envs]`: both in one forest, or both in the open; the leader sees all."""
        here, there = inside[self.members[stem]][:, None], inside[self.others[stem]]
        together = (here & there).any(axis=2)
        in_the_open = ~(here.any(axis=2) | there.any(axis=2))
        return together | in_the_open | (stem == LEADER)

    def reward(self, physics: Physics) -> Array:
        """The adversaries' catch and nearness, then the agents' losses and food."""
        hunters, prey = self._hunters, self.members[PREY]
        caught = physics.touching(prey, hunters)
        chase = 5.0 * caught.sum(axis=(0, 1)) - 0.1 * physics.distances(hunters, prey).min(axis=1)
        eaten = 2.0 * physics.touching(prey, self._food).sum(axis=1)
        distance = 0.05 * physics.distances(prey, self._food).min(axis=1)
        flight = eaten - distance - 5.0 * caught.sum(axis=1) - 2.0 * beyond(physics.position[prey])
        return np.concatenate([chase, flight])
