"""A lane that is a whole env copy: its agents side by side, one reward, one end. For mixers, which learn what they do together.

To everyone between the environment and the algorithm a team is one agent with larger spaces: its observation is
`{"agents": [A, ...], "acting": [A], "state": [S]}`, its action `[A]`, and its mask the agents' masks side by side,
as those of a MultiDiscrete are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from shoal.api.algorithm import TeamReward
from shoal.api.env import AgentGroup, Turn
from shoal.base.tree import Tree
from shoal.rollout.global_state import Seen
from shoal.rollout.trajectory import View

REWARDS: dict[TeamReward, Callable[[np.ndarray], np.ndarray]] = {
    "sum": lambda reward: reward.sum(1),
    "mean": lambda reward: reward.mean(1),
    "first": lambda reward: reward[:, 0],
}


def team_group(group: AgentGroup, state: spaces.Space[Any]) -> AgentGroup:
    """The same agents, with the spaces of all of them together."""
    count = len(group.agents)
    parts: dict[str, spaces.Space[Any]] = {
        "agents": batch_space(group.observation_space, count),
        "acting": spaces.MultiBinary(count),
        "state": spaces.Box(-np.inf, np.inf, (state_width(state),), np.float32),
    }
    return AgentGroup(group.agents, spaces.Dict(parts), batch_space(group.action_space, count))


def state_width(state: spaces.Space[Any]) -> int:
    """Numbers in it."""
    return math.prod(state.shape or ())


class TeamLanes:
    """Lays a Turn out with one lane per env copy. Remembers who lives: a team's episode ends with its last agent's."""

    def __init__(self, reward: TeamReward) -> None:
        self._reward = REWARDS[reward]
        self.restart()

    def restart(self) -> None:
        """New episodes everywhere."""
        self._alive: np.ndarray | None = None

    @property
    def alive(self) -> np.ndarray | None:
        """Who lives, `[rows, agents]`; None: nobody was seen yet."""
        return None if self._alive is None else self._alive.copy()

    @alive.setter
    def alive(self, alive: np.ndarray | None) -> None:
        self._alive = None if alive is None else alive.copy()

    def view(self, turn: Turn, state: Seen) -> View:
        """`[rows, agents, ...]` -> `[rows, ...]`."""
        alive = np.zeros_like(turn.acting) if self._alive is None else self._alive
        left = alive & ~(turn.terminated | turn.truncated)
        over = alive.any(1) & ~left.any(1)
        self._alive = np.where(over[:, None], turn.acting, left | turn.acting)
        cut = over & (turn.truncated & ~turn.terminated).any(1)
        mask = turn.action_mask
        return View(
            _seen(turn.observation, turn.acting, state.now), self._reward(turn.reward).astype(np.float32), over & ~cut, cut,
            np.asarray(turn.acting.any(1)), None if mask is None else mask.reshape(len(over), -1),
            self._final(turn, state) if cut.any() else None,
        )  # fmt: skip

    def _final(self, turn: Turn, state: Seen) -> Tree:
        """What teams that were cut off saw last."""
        last = turn.observation if turn.final_observation is None else turn.final_observation
        return _seen(last, turn.truncated & ~turn.terminated, state.now if state.final is None else state.final)


def _seen(observation: Tree, acting: np.ndarray, state: np.ndarray) -> dict[str, Tree]:
    return {"agents": observation, "acting": acting, "state": state.reshape(len(state), -1).astype(np.float32)}
