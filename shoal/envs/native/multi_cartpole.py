"""`shoal/multi-cartpole`: agents that have nothing to do with each other, so that what one learns is known from CartPole."""

from __future__ import annotations

from typing import Literal

import numpy as np
from gymnasium.spaces import Box, Discrete

from shoal.api.env import AgentGroup, Array
from shoal.envs.native.native_env import ByGroup, NativeEnv, Outcome

GRAVITY, CART, POLE, HALF_LENGTH, PUSH, TAU = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
TOTAL = CART + POLE
FAR, TILT = 2.4, 12 * 2 * np.pi / 360


class MultiCartPole(NativeEnv):
    """Each agent balances a pole of its own, as in Gymnasium's CartPole-v1, and earns 1 for every step until it falls.

    An agent whose pole fell is dead: it acts no more, until all have fallen or `max_steps` have passed and a new episode
    begins. `groups` is `one` (all agents side by side) or `own` (a group each). The state is what all see, and who lives.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        first_slot: int = 0,
        agents: int = 2,
        groups: Literal["one", "own"] = "one",
        max_steps: int = 500,
    ) -> None:
        if groups not in ("one", "own"):
            raise ValueError(f"groups is 'one' or 'own', not {groups!r}")
        if min(agents, max_steps) < 1:
            raise ValueError("agents and max_steps are at least 1")
        names = tuple(f"pole_{i}" for i in range(agents))
        high = np.array([2 * FAR, np.inf, 2 * TILT, np.inf], np.float32)
        space = Box(-high, high)
        parts = {"pole": names} if groups == "one" else {name: (name,) for name in names}
        super().__init__(
            {name: AgentGroup(part, space, Discrete(2)) for name, part in parts.items()}, num_envs, first_slot
        )
        self._max_steps, self._count = max_steps, agents
        self.arrays["poles"] = np.zeros((4, num_envs, agents))
        self.arrays["alive"] = np.ones((num_envs, agents), bool)

    @property
    def best_return(self) -> float:
        """One for every step."""
        return float(self._max_steps)

    def begin(self, rows: Array) -> None:
        self.arrays["poles"][:, rows] = self.random(rows).uniform(-0.05, 0.05, 4, self._count).swapaxes(1, 2)
        self.arrays["alive"][rows] = True

    def advance(self, actions: ByGroup) -> Outcome:
        poles, alive = self.arrays["poles"], self.arrays["alive"]
        earned = alive.astype(np.float64)
        pushes = np.concatenate([actions[name] for name in self.groups], axis=1)
        np.copyto(poles, _swing(poles, pushes), where=alive)
        fell = alive & ((np.abs(poles[0]) > FAR) | (np.abs(poles[2]) > TILT))
        alive &= ~fell
        cut = alive & (self.time >= self._max_steps)[:, None]
        over = np.logical_and.reduce(~alive | cut, axis=1)
        return Outcome(self._split(earned), self._split(fell), self._split(cut), over)

    def _split(self, values: Array) -> ByGroup:
        if len(self.groups) == 1:
            return dict.fromkeys(self.groups, values)
        return {name: values[:, i : i + 1] for i, name in enumerate(self.groups)}

    def observe(self) -> ByGroup:
        return self._split(self._poles())

    def _poles(self) -> Array:
        return self.arrays["poles"].transpose(1, 2, 0).astype(np.float32, order="C")

    def global_state(self, seen: ByGroup) -> Array:
        return np.concatenate(
            [self._poles().reshape(self.num_envs, -1), self.arrays["alive"]], axis=1, dtype=np.float32
        )

    def acting(self) -> ByGroup:
        return self._split(self.arrays["alive"].copy())


def _swing(poles: Array, actions: Array) -> Array:
    """One Euler step of `[4, ...]` under pushes to the left (0) and to the right (1), as in Gymnasium's CartPole.

    Barto, Sutton and Anderson 1983; the equations are Florian 2007.
    """
    x, speed, angle, spin = poles
    cos, sin = np.cos(angle), np.sin(angle)
    force = np.where(actions == 1, PUSH, -PUSH)
    pull = (force + POLE * HALF_LENGTH * np.square(spin) * sin) / TOTAL
    turn = (GRAVITY * sin - cos * pull) / (HALF_LENGTH * (4.0 / 3.0 - POLE * np.square(cos) / TOTAL))
    accel = pull - POLE * HALF_LENGTH * turn * cos / TOTAL
    return np.stack([x + TAU * speed, speed + TAU * accel, angle + TAU * spin, spin + TAU * turn])
