"""Actions that stick: now and then the last is played again. Machado et al. (2018), Revisiting the Arcade Learning Environment.

Whether they do follows from (seed, group, agent's run-wide number, step): the same in whichever process a copy lives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import MultiDiscrete

from shoal.api.env import Array, Env, Step, Tree, Turn
from shoal.base.seeding import Noise
from shoal.envs.spaces import mask_width
from shoal.envs.wrappers.values import Chosen, number
from shoal.envs.wrappers.wrapper import EnvWrapper


class Sticky(EnvWrapper):
    """With this probability an agent's last action is played again, instead of the one it chose."""

    def __init__(self, env: Env, chosen: Chosen, *, name: str, first_slot: int) -> None:
        super().__init__(env)
        self._share, self._first_slot = chosen.value, first_slot
        self._last = {
            group: LastActions.of((env.num_envs, len(known.agents)), known.action_space)
            for group, known in env.groups.items()
        }
        self._clock = np.zeros(2, np.int64)
        """The seed, and how many steps were taken since `reset`."""
        self._noise = dict[str, Noise]()

    @classmethod
    def check(cls, value: Any) -> float:
        """A probability."""
        return number(value, 0.0, 1.0, "sticky: 0.25")

    def reset(self, seed: int) -> Step:
        self._clock[:] = seed, 0
        self._open()
        for last in self._last.values():
            last.known[:] = False
        return self._seen(super().reset(seed))

    def send(self, actions: dict[str, Array]) -> None:
        played = {group: self._played(group, actions[group]) for group in self._last}
        self._clock[1] += 1
        super().send(played)

    def recv(self, timeout: float) -> Step:
        return self._seen(super().recv(timeout))

    def restore(self, tree: Tree) -> None:
        super().restore(tree)
        self._open()

    def _contents(self) -> dict[str, Tree]:
        return {"clock": self._clock, **{group: vars(last) for group, last in self._last.items()}}

    def _open(self) -> None:
        for group, last in self._last.items():
            first, count = self._first_slot * last.known.shape[1], last.known.size
            self._noise[group] = Noise(int(self._clock[0]), f"sticky {group}", np.arange(first, first + count), 1)

    def _played(self, group: str, actions: Array) -> Array:
        """Of agents that wait, whatever was sent."""
        last = self._last[group]
        drawn = self._noise[group].at(int(self._clock[1])).reshape(last.known.shape)
        stuck = last.acting & last.known & (drawn < self._share) & last.allowed(self.groups[group].action_space)
        played = actions.copy()
        played[stuck] = last.action[stuck]
        last.action[last.acting] = played[last.acting]
        last.known |= last.acting
        return played

    def _seen(self, step: Step) -> Step:
        over = [episode.row for episode in step.episodes]
        for group, turn in step.turns.items():
            self._last[group].see(turn, over)
        return step


@dataclass
class LastActions:
    """Of one group; `[rows, agents, ...]`."""

    action: Array
    """What was played last."""
    known: Array
    """bool: something was played in this episode."""
    acting: Array
    mask: Array
    """bool `[rows, agents, actions]`; of actions that cannot be masked, no columns."""

    @classmethod
    def of(cls, shape: tuple[int, int], space: Space[Any]) -> LastActions:
        action = np.zeros((*shape, *(space.shape or ())), space.dtype)
        known, acting = np.zeros(shape, bool), np.zeros(shape, bool)
        return cls(action, known, acting, np.ones((*shape, mask_width(space)), bool))

    def see(self, turn: Turn, over: list[int]) -> None:
        """Who acts now, and with which actions to choose from; an episode begins without a last action."""
        self.known &= ~(turn.terminated | turn.truncated)
        self.known[over] = False
        np.copyto(self.acting, turn.acting)
        if turn.action_mask is not None:
            np.copyto(self.mask, turn.action_mask)

    def allowed(self, space: Space[Any]) -> Array:
        """bool `[rows, agents]`: the last action may be played again."""
        if not self.mask.shape[-1]:
            return np.ones_like(self.known)
        starts: Any = (
            np.concatenate([[0], np.cumsum(space.nvec.ravel())[:-1]]) if isinstance(space, MultiDiscrete) else 0
        )
        places = self.action.reshape(*self.known.shape, -1) + starts
        return np.all(np.take_along_axis(self.mask, places.astype(np.int64), axis=-1), axis=-1)
