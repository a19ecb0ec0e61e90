"""From a scenario to an Env: actions become forces and words, what the scenario says becomes Turns.

Agents whose names share a stem (`adversary_0`, `adversary_1`) and whose spaces are equal are one group, named like the stem.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Literal

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.drawing import COLOURS, INK, WHITE, Colour, canvas, disc, to_image
from shoal.envs.mpe.physics import Body, Physics
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome
from shoal.envs.native.row_random import RowRandom

MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], np.float64)
"""What the five discrete moves do: nothing, left, right, down, up."""
SIDE, STONE = 420, (173, 181, 189)
"""Pixels of an image's side, and the colour of what stands in the way."""


class Scenario(ABC):
    """Who there is, what they see and what they earn. Agents of one stem stand side by side in `agents`."""

    landmark_range = 1.0
    """Landmarks begin at random within this distance of the middle, along each axis."""
    game_return: Literal["sum", "mean"] = "sum"
    """See Env: `mean` where all agents earn one shared reward, or a mix with it."""

    def __init__(self, agents: Sequence[Body], landmarks: Sequence[Body], words: int = 0) -> None:
        self.agents, self.landmarks, self.words = tuple(agents), tuple(landmarks), words
        stems = [body.name.rpartition("_")[0] for body in agents]
        self.members = {stem: slice(stems.index(stem), stems.index(stem) + stems.count(stem)) for stem in stems}
        everyone = np.arange(len(agents))
        self.others = {
            stem: np.array([np.delete(everyone, i) for i in everyone[members]], np.int64)
            for stem, members in self.members.items()
        }
        """Stem -> `[agents of the stem, all others]`: the numbers of the other agents."""

    @classmethod
    def batch(
        cls,
        num_envs: int,
        *,
        first_slot: int = 0,
        max_cycles: int = 25,
        continuous_actions: bool = False,
        **kwargs: Any,
    ) -> Particles:
        """Copies of this scenario; `kwargs` are its own settings."""
        return Particles(
            cls(**kwargs), num_envs, first_slot=first_slot, max_cycles=max_cycles, continuous=continuous_actions
        )

    def memory(self, num_envs: int) -> dict[str, Array]:
        """Arrays `[..., num_envs]` that this scenario keeps beside the bodies."""
        return {}

    def begin(self, physics: Physics, rows: Array, random: RowRandom) -> None:
        """Draw what this scenario keeps; the bodies are already placed."""
        return

    def after(self, physics: Physics, env: NativeEnv) -> None:
        """What happens between the movement and the rewards."""
        return

    @abstractmethod
    def observe(self, physics: Physics) -> dict[str, list[Array]]:
        """Stem -> parts `[agents of the stem, ..., num_envs]`, one behind the other in the observation."""

    @abstractmethod
    def reward(self, physics: Physics) -> Array:
        """`[agents, num_envs]`."""

    def solved(self, physics: Physics) -> Array | None:
        """bool `[num_envs]`: the episode ends here; None: it never ends before its time."""
        return None


class Particles(NativeEnv):
    """Copies of a scenario. An episode is cut off after `max_cycles` steps."""

    render_fps = 10.0

    def __init__(
        self, scenario: Scenario, num_envs: int, *, first_slot: int, max_cycles: int, continuous: bool
    ) -> None:
        if max_cycles < 1:
            raise ValueError(f"max_cycles is at least 1, not {max_cycles}")
        self.scenario, self.max_cycles = scenario, max_cycles
        self.physics = Physics(scenario.agents, scenario.landmarks, scenario.words, num_envs)
        self.physics.memory = scenario.memory(num_envs)
        self._continuous = continuous
        self.game_return = scenario.game_return
        widths = {stem: _width(parts) for stem, parts in scenario.observe(self.physics).items()}
        groups = {
            stem: AgentGroup(
                tuple(body.name for body in scenario.agents[members]),
                Box(-np.inf, np.inf, (widths[stem],), np.float32),
                self._action_space(scenario.agents[members.start]),
            )
            for stem, members in scenario.members.items()
        }
        super().__init__(groups, num_envs, first_slot)
        self.arrays.update(self.physics.arrays())
        self._force = np.zeros_like(self.physics.velocity)

    def _action_space(self, body: Body) -> Space[Any]:
        words = 0 if body.silent else self.scenario.words
        moves = len(MOVES) if body.movable else 0
        if self._continuous:
            return Box(0.0, 1.0, (moves + words,))
        return Discrete(max(moves, 1) * max(words, 1))

    def render(self, row: int) -> Array:
        """The plane from above: agents in the colours of their groups, landmarks dark, the small ones on top."""
        physics, drawn = self.physics, canvas(SIDE, SIDE)
        at = physics.position[..., row]
        reach = max(
            1.2, 0.2 * np.ceil((np.abs(at).max() + 0.15) / 0.2)
        )  # by steps: a view that never stands still tires
        scale = SIDE / 2 / reach

        def put(entity: int, colour: Colour, *, opacity: float = 1.0, rim: Colour | None = None) -> None:
            x, y, radius = (
                at[entity, 0] * scale + SIDE / 2,
                SIDE / 2 - at[entity, 1] * scale,
                physics.size[entity] * scale,
            )
            if rim is not None:
                disc(drawn, x, y, radius + 2, rim)
            disc(drawn, x, y, radius, colour, opacity)

        numbers = range(physics.landmarks.start, physics.landmarks.stop)
        small = [n for n in numbers if not self.scenario.landmarks[n - physics.landmarks.start].collide]
        for obstacle in set(numbers) - set(small):
            put(obstacle, STONE)
        for colour, members in zip(cycle(COLOURS), self.scenario.members.values(), strict=False):
            for agent in range(members.start, members.stop):
                put(agent, colour, opacity=0.85)
        for landmark in small:
            put(landmark, INK, rim=WHITE)
        return to_image(drawn)

    # ------------------------------------------------------------ NativeEnv

    def begin(self, rows: Array) -> None:
        physics, reach, random = self.physics, self.scenario.landmark_range, self.random(rows)
        physics.position[physics.agents, :, rows] = random.uniform(-1, 1, len(self.scenario.agents), 2)
        physics.position[physics.landmarks, :, rows] = random.uniform(-reach, reach, len(self.scenario.landmarks), 2)
        physics.velocity[..., rows] = 0.0
        physics.said[..., rows] = 0.0
        self.scenario.begin(physics, rows, random)

    def advance(self, actions: ByGroup) -> Outcome:
        for stem, members in self.scenario.members.items():
            self._act(self.scenario.agents[members.start], members, actions[stem])
        self.physics.step(self._force)
        self.scenario.after(self.physics, self)
        return self._outcome(self.scenario.reward(self.physics))

    def _act(self, body: Body, members: slice, actions: Array) -> None:
        """Write what the agents of one group do into the forces and the words."""
        if self._continuous:
            actions = np.clip(actions, 0.0, 1.0).transpose(1, 2, 0)
            if body.movable:
                self._force[members] = actions[:, 2:5:2] - actions[:, 1:5:2]
                self._force[members] *= body.accel
            if not body.silent:
                self.physics.said[members] = actions[:, len(MOVES) * body.movable :]
            return
        chosen = actions.T
        if body.movable and not body.silent:
            words, chosen = np.divmod(chosen, len(MOVES))
        else:
            words = chosen
        if body.movable:
            self._force[members] = (MOVES * body.accel).T[:, chosen].swapaxes(0, 1)
        if not body.silent:
            self.physics.said[members] = words[:, None] == np.arange(self.scenario.words)[:, None]

    def _outcome(self, reward: Array) -> Outcome:
        rewards = {stem: reward[members].T for stem, members in self.scenario.members.items()}
        truncated, solved = self.time >= self.max_cycles, self.scenario.solved(self.physics)
        return self.ended_together(rewards, None if solved is None else solved & ~truncated, truncated)

    def observe(self) -> ByGroup:
        seen = {}
        for stem, parts in self.scenario.observe(self.physics).items():
            flat = [part.reshape(len(part), -1, self.num_envs) for part in parts]
            joined = np.concatenate(flat, axis=1, dtype=np.float32, casting="same_kind")
            seen[stem] = np.ascontiguousarray(joined.transpose(2, 0, 1))
        return seen

    def global_state(self, seen: ByGroup) -> Array:
        """All observations, agent after agent, as mpe2's `state()`."""
        parts = [seen[stem].reshape(self.num_envs, -1) for stem in self.scenario.members]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _width(parts: list[Array]) -> int:
    return sum(int(np.prod(part.shape[1:-1])) for part in parts)
