"""The arrays of an environment whose agents come and go as a game outside says: births, decisions and ends in, Steps out.

A copy's episode is over once nobody of it lives; it begins anew with the next who acts, in the same step or later. The
reward that comes with an agent's first observation is nobody's: it had done nothing yet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Dict, Tuple

from shoal.api.env import AgentGroup, Array, Episode, Step, Tree, Turn
from shoal.base.tree import tree_leaves


class GroupRows:
    """Of one group, `[rows, agents, ...]`, written in place."""

    def __init__(self, group: AgentGroup, rows: int, mask_width: int) -> None:
        self.shape = shape = rows, len(group.agents)
        self.observation, self.final = (_arrays(group.observation_space, shape) for _ in range(2))
        self._seen, self._last = ([_flat(leaf) for _, leaf in tree_leaves(t)] for t in (self.observation, self.final))
        self.reward, self.returns = np.zeros(shape, np.float32), np.zeros(shape)
        self.terminated, self.truncated, self.acting, self.lives = (np.zeros(shape, bool) for _ in range(4))
        self.mask = np.ones((*shape, mask_width), bool) if mask_width else None
        self._ended = False

    def clear(self, *, whole: bool = False) -> None:
        """Before a step; `whole`: before a reset."""
        self.reward[:], self.acting[:] = 0.0, False
        if self.mask is not None:
            self.mask[:] = True
        if self._ended:
            self.terminated[:], self.truncated[:], self._ended = False, False, False
        if whole:
            self.lives[:], self.returns[:] = False, 0.0
            for leaf in self._seen:
                leaf[:] = 0

    def see(self, at: Array, parts: list[Array]) -> None:
        """What agents see now; `at`: row * agents + slot of each, `parts`: an array `[len(at), ...]` per leaf."""
        for leaf, part in zip(self._seen, parts, strict=True):
            leaf[at] = part

    def act(self, at: Array, rewards: Array) -> None:
        """They decide next, and earned this since they last did."""
        known = self.lives.reshape(-1)[at]
        self.reward.reshape(-1)[at] += np.where(known, rewards, 0.0).astype(np.float32)
        self.acting.reshape(-1)[at] = self.lives.reshape(-1)[at] = True

    def end(self, at: Array, rewards: Array, truncated: Array) -> None:
        """They are out: `see` has shown their last observation."""
        self.reward.reshape(-1)[at] += rewards.astype(np.float32)
        self.terminated.reshape(-1)[at], self.truncated.reshape(-1)[at] = ~truncated, truncated
        self.acting.reshape(-1)[at] = self.lives.reshape(-1)[at] = False
        self._ended = True
        for last, seen in zip(self._last, self._seen, strict=True):
            last[at] = seen[at]

    def cut(self, rows: Array) -> None:
        """Whoever lives in these rows is cut off where it stands."""
        at = np.flatnonzero(self.lives & np.isin(np.arange(self.shape[0]), rows)[:, None])
        self.end(at, np.zeros(len(at)), np.ones(len(at), bool))

    def turn(self) -> Turn:
        """A view of it all."""
        final = self.final if self._ended else None
        return Turn(self.observation, self.reward, self.terminated, self.truncated, self.acting, self.mask, final)


class OutsideRows:
    """All groups of all copies."""

    def __init__(self, groups: dict[str, AgentGroup], rows: int, mask_widths: dict[str, int]) -> None:
        self.groups = {name: GroupRows(group, rows, mask_widths.get(name, 0)) for name, group in groups.items()}
        self._rows = rows
        self._begun, self.over, self._idle = (np.zeros(rows, bool) for _ in range(3))
        self._lengths = np.zeros(rows, np.int64)

    def open(self) -> None:
        """Before a reset: forget everything."""
        for group in self.groups.values():
            group.clear(whole=True)
        self._begun[:] = self.over[:] = self._idle[:] = False
        self._lengths[:] = 0

    def clear(self) -> None:
        """Before a step."""
        for group in self.groups.values():
            group.clear()
        self.over[:] = False

    def mark_ends(self) -> None:
        """Between the ends and the births of one message: copies in which nobody is left are over."""
        lives = np.logical_or.reduce([group.lives.any(axis=1) for group in self.groups.values()])
        self.over |= self._begun & ~lives
        self._begun &= lives

    def mark_births(self) -> None:
        """After the births of one message."""
        for group in self.groups.values():
            self._begun |= group.acting.any(axis=1)

    def answer(self, metrics: dict[int, dict[str, float]], *, first: bool = False) -> Step:
        """What all of it comes to; `metrics`: numbers of a row for its Episode; `first`: it answers a reset."""
        if first:
            return Step({name: group.turn() for name, group in self.groups.items()})
        advanced = ~self._idle
        self._lengths += advanced
        for group in self.groups.values():
            if self._idle.any():  # who begins in an idle call had done nothing yet
                group.reward[self._idle] = 0.0
            group.returns += group.reward
        episodes = [self._episode(row, metrics.get(row, {})) for row in np.flatnonzero(self.over).tolist()]
        acts = np.logical_or.reduce([group.acting.any(axis=1) for group in self.groups.values()])
        self._idle = self.over & ~acts
        turns = {name: group.turn() for name, group in self.groups.items()}
        return Step(turns, advanced=int(advanced.sum()), episodes=episodes)

    def _episode(self, row: int, metrics: dict[str, float]) -> Episode:
        returns = {name: group.returns[row].copy() for name, group in self.groups.items()}
        for group in self.groups.values():
            group.returns[row] = 0.0
        length, self._lengths[row] = int(self._lengths[row]), 0
        return Episode(row, length, returns, dict(metrics))


def _arrays(space: Space[Any], shape: tuple[int, int]) -> Tree:
    if isinstance(space, Dict):
        return {key: _arrays(part, shape) for key, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(_arrays(part, shape) for part in space.spaces)
    return np.zeros((*shape, *(space.shape or ())), space.dtype)


def _flat(leaf: Array) -> Array:
    return leaf.reshape(-1, *leaf.shape[2:])
