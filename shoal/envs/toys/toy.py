"""What all toy worlds share: episodes, books, autoreset and snapshots. A toy adds its rules and nothing else.

All chance is drawn when an episode begins, from (seed, run-wide number of the copy, number of the episode). So a toy's
future is in its arrays, a snapshot is a copy of them, and a copy lives the same life however copies are split.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, NamedTuple

import numpy as np

from shoal.api.env import AgentGroup, Array, Env, Episode, Step, Tree, Turn
from shoal.base.seeding import generator
from shoal.base.tree import tree_map

Autoreset = Literal["same", "next"]


class Outcome(NamedTuple):
    """What one step brought, for every copy. Copies that idle are filled with anything."""

    reward: Array
    """`[num_envs]`: every agent gets the same."""
    terminated: Array
    """bool `[num_envs]`."""
    truncated: Array
    """bool `[num_envs]`."""


class Toy(Env):
    """A batch of tiny worlds. A subclass keeps its state in `self.world`, arrays with one row per copy.

    `autoreset` says when an ended copy starts anew: in the `same` step, or in an idle `next` call.
    """

    def __init__(
        self, groups: dict[str, AgentGroup], num_envs: int, first_slot: int, autoreset: Autoreset = "same"
    ) -> None:
        if autoreset not in ("same", "next"):
            raise ValueError(f"autoreset is 'same' or 'next', not {autoreset!r}")
        self.groups, self.num_envs, self.first_slot = groups, num_envs, first_slot
        self.world: dict[str, Array] = {}
        self.time = np.zeros(num_envs, np.int64)
        self._autoreset = autoreset
        self._seed = 0
        self._episode = np.zeros(num_envs, np.int64)
        self._returns = np.zeros(num_envs)
        self._idle = np.zeros(num_envs, bool)
        self._actions: dict[str, Array] = {}

    # ------------------------------------------------------------ the rules of a toy

    @property
    @abstractmethod
    def best_return(self) -> float:
        """What a perfect agent earns in an episode."""

    @abstractmethod
    def _begin(self, row: int, random: np.random.Generator) -> None:
        """Write a new episode of one copy into `self.world`."""

    @abstractmethod
    def _advance(self, actions: dict[str, Array], live: Array) -> Outcome:
        """Apply actions `[num_envs, ...]` of each group's one agent; `time` already counts this step."""

    @abstractmethod
    def _observe(self) -> dict[str, Array]:
        """What each group sees now, as new arrays `[num_envs, ...]`."""

    def _masks(self) -> dict[str, Array]:
        """Masks `[num_envs, choices]` of the groups that have one."""
        return {}

    def _acting(self) -> dict[str, Array]:
        """bool `[num_envs]` of the groups that take turns."""
        return {}

    # ------------------------------------------------------------ Env

    def reset(self, seed: int) -> Step:
        """Episode 0 of every copy."""
        self._seed = seed
        self._episode[:] = -1
        self._idle[:] = False
        self._start(np.arange(self.num_envs))
        nothing = np.zeros(self.num_envs, bool)
        return Step(self._turns(Outcome(np.zeros(self.num_envs), nothing, nothing), {}))

    def send(self, actions: dict[str, Array]) -> None:
        """Keeps a copy of the actions; the world steps in `recv`."""
        self._actions = {group: actions[group][:, 0].copy() for group in self.groups}

    def recv(self, timeout: float) -> Step:
        """One step of every copy that does not idle."""
        live, idle = ~self._idle, self._idle
        self.time += live
        reward, terminated, truncated = self._advance(self._actions, live)
        outcome = Outcome(np.where(live, reward, 0.0), terminated & live, truncated & live)
        self._returns += outcome.reward
        ended = outcome.terminated | outcome.truncated
        rows = np.flatnonzero(ended)
        episodes = [self._record(row) for row in rows.tolist()]
        final = {}
        if self._autoreset == "next":
            self._idle = ended
            self._start(np.flatnonzero(idle))
        elif rows.size:
            final = self._observe()
            self._start(rows)
        return Step(self._turns(outcome, final), advanced=int(live.sum()), episodes=episodes)

    def snapshot(self) -> Tree:
        """All arrays of the world and its books."""
        return tree_map(np.copy, {**self._books(), "world": self.world, "seed": np.asarray(self._seed)})

    def restore(self, tree: Tree) -> None:
        """Go on from a snapshot of a world built with the same settings."""
        for name, array in self._books().items():
            array[:] = tree[name]
        self.world = tree_map(np.copy, tree["world"])
        self._seed = int(tree["seed"])

    # ------------------------------------------------------------ books

    def _books(self) -> dict[str, Array]:
        return {"time": self.time, "episode": self._episode, "returns": self._returns, "idle": self._idle}

    def _start(self, rows: Array) -> None:
        for row in rows.tolist():
            self._episode[row] += 1
            self._begin(row, generator(self._seed, "episode", self.first_slot + row, int(self._episode[row])))
        self.time[rows] = 0
        self._returns[rows] = 0.0

    def _record(self, row: int) -> Episode:
        returns = {group: np.full(1, self._returns[row]) for group in self.groups}
        return Episode(row, int(self.time[row]), returns)

    def _turns(self, outcome: Outcome, final: dict[str, Array]) -> dict[str, Turn]:
        seen, masks, acting = self._observe(), self._masks(), self._acting()
        everyone = np.ones(self.num_envs, bool)
        return {
            group: Turn(
                observation=seen[group][:, None],
                reward=outcome.reward[:, None].astype(np.float32),
                terminated=outcome.terminated[:, None],
                truncated=outcome.truncated[:, None],
                acting=(acting.get(group, everyone) & ~self._idle)[:, None],
                action_mask=masks[group][:, None] if group in masks else None,
                final_observation=final[group][:, None] if final else None,
            )
            for group in self.groups
        }
