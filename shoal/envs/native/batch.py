"""What all native worlds share: episodes, books, same-step autoreset, snapshots. A world adds its rules and nothing else.

Actions `[num_envs, agents]` per group go in, Steps come out. All chance follows from (seed, run-wide number of the copy,
number of the episode, time), so a snapshot is a copy of arrays, and a copy lives the same life however copies are split.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from shoal.api.env import AgentGroup, Array, Env, Episode, Step, Tree, Turn
from shoal.base.tree import tree_map
from shoal.envs.native.chance import Chance

ByGroup = dict[str, Array]
"""Group -> `[num_envs, agents, ...]`."""


class Outcome(NamedTuple):
    """What one step brought."""

    reward: ByGroup
    terminated: ByGroup
    """bool: agents whose episode ended by the rules in this step."""
    truncated: ByGroup
    """bool: agents whose episode was cut off in this step."""
    over: Array
    """bool `[num_envs]`: copies whose last agents ended."""


class Batch(Env):
    """A batch of worlds. A subclass keeps its state in `self.world`, arrays that it changes in place and never replaces."""

    def __init__(self, groups: dict[str, AgentGroup], num_envs: int, first_slot: int) -> None:
        self.groups, self.num_envs, self.first_slot = groups, num_envs, first_slot
        self.world: dict[str, Array] = {}
        self.time = np.zeros(num_envs, np.int64)
        self._slots = first_slot + np.arange(num_envs)
        self._seed = 0
        self._episode = np.zeros(num_envs, np.int64)
        self._returns = {name: np.zeros((num_envs, len(group.agents))) for name, group in groups.items()}
        self._actions: ByGroup = {}

    # ------------------------------------------------------------ the rules of a world

    @abstractmethod
    def _begin(self, rows: Array, chance: Chance) -> None:
        """Write new episodes of these copies into `self.world`."""

    @abstractmethod
    def _advance(self, actions: ByGroup) -> Outcome:
        """One step of every copy; `time` already counts it."""

    @abstractmethod
    def _observe(self) -> ByGroup:
        """What each group sees now, as new arrays."""

    def _state(self, seen: ByGroup) -> Array | None:
        """The global state now, `[num_envs, ...]`; `seen` is what the groups see."""
        return None

    def _acting(self) -> ByGroup:
        """bool, of the groups in which not everyone acts."""
        return {}

    def _masks(self) -> ByGroup:
        """bool `[num_envs, agents, choices]`, of the groups whose choices are not always allowed."""
        return {}

    def chance(self, rows: Array) -> Chance:
        """Chance of these copies in this step of this episode."""
        return Chance(self._seed, self._slots[rows], self._episode[rows], self.time[rows])

    def for_all(self, flags: Array) -> ByGroup:
        """The same flag `[num_envs]` for every agent of a copy."""
        return {name: np.repeat(flags[:, None], len(group.agents), axis=1) for name, group in self.groups.items()}

    # ------------------------------------------------------------ Env

    def reset(self, seed: int) -> Step:
        """Episode 0 of every copy."""
        self._seed = seed
        self._episode[:] = -1
        self._start(np.arange(self.num_envs))
        nobody = self.for_all(np.zeros(self.num_envs, bool))
        nothing = {name: np.zeros_like(sums) for name, sums in self._returns.items()}
        return self._step(Outcome(nothing, nobody, nobody, np.zeros(self.num_envs, bool)), None)

    def send(self, actions: ByGroup) -> None:
        """Keeps a copy of the actions; the world steps in `recv`."""
        self._actions = {name: np.array(actions[name]) for name in self.groups}

    def recv(self, timeout: float) -> Step:
        """One step of every copy; those that ended begin anew."""
        self.time += 1
        outcome = self._advance(self._actions)
        for name, sums in self._returns.items():
            sums += outcome.reward[name]
        rows = np.flatnonzero(outcome.over)
        if not rows.size:
            return self._step(outcome, None, advanced=self.num_envs)
        episodes, final = self._records(rows), self._observe()
        final_state = self._state(final) if self.wants_state else None
        self._start(rows)
        step = self._step(outcome, final, advanced=self.num_envs, episodes=episodes)
        step.final_state = final_state
        return step

    def snapshot(self) -> Tree:
        """All arrays of the world and its books."""
        return tree_map(np.copy, {**self._books(), "seed": np.asarray(self._seed)})

    def restore(self, tree: Tree) -> None:
        """Go on from a snapshot of a world built with the same settings."""
        tree_map(np.copyto, self._books(), tree)
        self._seed = int(tree["seed"])

    # ------------------------------------------------------------ books

    def _books(self) -> Tree:
        return {"time": self.time, "episode": self._episode, "returns": self._returns, "world": self.world}

    def _start(self, rows: Array) -> None:
        self._episode[rows] += 1
        self.time[rows] = 0
        for sums in self._returns.values():
            sums[rows] = 0.0
        self._begin(rows, self.chance(rows))

    def _records(self, rows: Array) -> list[Episode]:
        returns = {name: sums[rows] for name, sums in self._returns.items()}
        lengths = self.time[rows].tolist()
        return [
            Episode(row, lengths[i], {name: sums[i] for name, sums in returns.items()})
            for i, row in enumerate(rows.tolist())
        ]

    def _step(
        self, outcome: Outcome, final: ByGroup | None, advanced: int = 0, episodes: list[Episode] | None = None
    ) -> Step:
        seen, acting, masks = self._observe(), self._acting(), self._masks()
        turns = {
            name: Turn(
                observation=seen[name],
                reward=outcome.reward[name].astype(np.float32),
                terminated=outcome.terminated[name],
                truncated=outcome.truncated[name],
                acting=acting[name] if name in acting else np.ones((self.num_envs, len(group.agents)), bool),
                action_mask=masks.get(name),
                final_observation=None if final is None else final[name],
            )
            for name, group in self.groups.items()
        }
        state = self._state(seen) if self.wants_state else None
        return Step(turns, state=state, advanced=advanced, episodes=episodes or [])
