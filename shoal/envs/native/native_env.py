"""The base class of batched environments in numpy: it counts episodes, restarts copies and takes snapshots.

A subclass adds the rules of its game and nothing else. Actions `[num_envs, agents, ...]` per group go in, Steps come out.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, NamedTuple

import numpy as np

from shoal.api.env import AgentGroup, Array, Env, Episode, Step, Tree, Turn
from shoal.base.seeding import Generators
from shoal.base.tree import tree_map
from shoal.envs.native.row_random import RowRandom

Autoreset = Literal["same", "next"]
ByGroup = dict[str, Array]
"""Group -> `[num_envs, agents, ...]`."""


class Outcome(NamedTuple):
    """The result of one step."""

    reward: ByGroup
    terminated: ByGroup
    """bool: agents whose episode ended by the rules in this step."""
    truncated: ByGroup
    """bool: agents whose episode was cut off in this step."""
    over: Array
    """bool `[num_envs]`: copies whose last agents ended."""


class NativeEnv(Env):
    """`num_envs` copies of one game, all stepped by the same numpy calls. Subclass it to write a fast environment.

    The constructor puts everything that changes during an episode into `self.arrays`: arrays with an entry per copy. The rules
    change them in place and never replace them. So a snapshot is a copy of them. Order of calls:

    - `reset`: `begin(all rows)`, `observe()`;
    - each step: `advance(actions)`, with `self.time` already counted; where episodes ended `observe()` for the final
      observations and `begin(ended rows)`; then `observe()`;
    - after each `observe()`: `acting()`, `action_masks()` and, if anybody wants it, `global_state(seen)`.

    All random numbers come from `random(rows)`. They follow from the seed, the run-wide number of the copy, its episode and its
    time: a copy plays the same episodes however copies are split over processes.

        class Guess(NativeEnv):
            '''Name the number that is shown. Ten times.'''

            def __init__(self, num_envs: int, *, first_slot: int = 0, numbers: int = 4) -> None:
                groups = {"agent": AgentGroup(("agent",), Discrete(numbers), Discrete(numbers))}
                super().__init__(groups, num_envs, first_slot)
                self.numbers = numbers
                self.arrays["shown"] = np.zeros(num_envs, np.int64)

            def begin(self, rows):
                self.arrays["shown"][rows] = self.random(rows).integers(self.numbers)

            def advance(self, actions):
                shown = self.arrays["shown"]
                right = actions["agent"][:, 0] == shown
                shown[:] = self.random(np.arange(self.num_envs)).integers(self.numbers)
                return self.ended_together(self.for_all(right * 1.0), truncated=self.time >= 10)

            def observe(self):
                return {"agent": self.arrays["shown"][:, None].copy()}

    `autoreset` says when an ended copy restarts: in the `same` step, or in an idle `next` call (`self.idle`).
    """

    def __init__(
        self, groups: dict[str, AgentGroup], num_envs: int, first_slot: int = 0, autoreset: Autoreset = "same"
    ) -> None:
        if autoreset not in ("same", "next"):
            raise ValueError(f"autoreset is 'same' or 'next', not {autoreset!r}")
        self.groups, self.num_envs, self.first_slot = groups, num_envs, first_slot
        self.arrays: dict[str, Array] = {}
        self.time = np.zeros(num_envs, np.int64)
        """`[num_envs]`: steps since the episode's start."""
        self.idle = np.zeros(num_envs, bool)
        """`[num_envs]`: copies that only restart in this call; what `advance` does to them is undone."""
        self._autoreset = autoreset
        self._slots = first_slot + np.arange(num_envs)
        self._seed, self._generators = 0, Generators(0, "episode")
        self._episode = np.zeros(num_envs, np.int64)
        self._returns = {name: np.zeros((num_envs, len(group.agents))) for name, group in groups.items()}
        self._actions: ByGroup = {}
        self._limit = 0
        self._out = {name: np.zeros(sums.shape, bool) for name, sums in self._returns.items()}
        """Agents that ended, of episodes with a time limit."""

    # ------------------------------------------------------------ the rules of the game

    @abstractmethod
    def begin(self, rows: Array) -> None:
        """Write new episodes of these copies into `self.arrays`."""

    @abstractmethod
    def advance(self, actions: ByGroup) -> Outcome:
        """One step of every copy."""

    @abstractmethod
    def observe(self) -> ByGroup:
        """The observations of each group, as new arrays."""

    def global_state(self, seen: ByGroup) -> Array | None:
        """`[num_envs, ...]`, if the game has one; `seen` is what `observe` returned."""
        return None

    def acting(self) -> ByGroup:
        """bool, of the groups in which not everyone acts; new arrays."""
        return {}

    def action_masks(self) -> ByGroup:
        """bool `[num_envs, agents, actions]`, of the groups whose actions are not always all allowed."""
        return {}

    # ------------------------------------------------------------ for use in the rules

    def random(self, rows: Array) -> RowRandom:
        """Random numbers of these copies in this step of this episode, without Python per row."""
        return RowRandom(self._seed, self._slots[rows], self._episode[rows], self.time[rows])

    def generator(self, row: int) -> np.random.Generator:
        """numpy's generator at the start of this copy's episode, for distributions that `random` has not; slower.

        Valid until the next call.
        """
        return self._generators.at(self.first_slot + row, int(self._episode[row]))

    def for_all(self, values: Array) -> ByGroup:
        """One value per copy `[num_envs]`, given to each of its agents."""
        return {name: np.repeat(values[:, None], len(group.agents), axis=1) for name, group in self.groups.items()}

    def ended_together(
        self, reward: ByGroup, terminated: Array | None = None, truncated: Array | None = None
    ) -> Outcome:
        """The Outcome where all agents of a copy end in the same step; flags are `[num_envs]`, None: nobody."""
        nobody = np.zeros(self.num_envs, bool)
        terminated, truncated = nobody if terminated is None else terminated, nobody if truncated is None else truncated
        return Outcome(reward, self.for_all(terminated), self.for_all(truncated), terminated | truncated)

    # ------------------------------------------------------------ Env

    def reset(self, seed: int) -> Step:
        """Episode 0 of every copy."""
        self._seed, self._generators = seed, Generators(seed, "episode")
        self._episode[:] = -1
        self.idle[:] = False
        self._start(np.arange(self.num_envs))
        nothing = {name: np.zeros_like(sums) for name, sums in self._returns.items()}
        return self._step(self.ended_together(nothing))

    def send(self, actions: ByGroup) -> None:
        """Keeps a copy of the actions; `recv` steps."""
        self._actions = {name: np.array(actions[name]) for name in self.groups}

    def recv(self, timeout: float) -> Step:
        """One step of every copy that is not idle. Copies that ended restart, at once or in the next call."""
        self.time += ~self.idle
        outcome = self.advance(self._actions)
        if self._autoreset == "next":
            outcome = self._without_idle(outcome)
        if self._limit:
            outcome = self._cut_off(outcome)
        if self._autoreset == "next":
            return self._recv_next(outcome)
        ended = self._add_rewards(outcome)
        if not ended.size:
            return self._step(outcome, advanced=self.num_envs)
        episodes, final = self._records(ended), self.observe()
        final_state = self.global_state(final) if self.wants_state else None
        self._start(ended)
        step = self._step(outcome, final, advanced=self.num_envs, episodes=episodes)
        step.final_state = final_state
        return step

    def limit_time(self, steps: int) -> bool:
        """Whoever is left then is truncated."""
        self._limit = min(self._limit or steps, steps)
        return True

    def snapshot(self) -> Tree:
        """A copy of all arrays."""
        return tree_map(np.copy, {**self._contents(), "seed": np.asarray(self._seed)})

    def restore(self, tree: Tree) -> None:
        """Go on from a snapshot of an environment built with the same settings."""
        tree_map(np.copyto, self._contents(), tree)
        self._seed = int(tree["seed"])
        self._generators = Generators(self._seed, "episode")

    # ------------------------------------------------------------ episodes

    def _contents(self) -> Tree:
        contents = {
            "time": self.time,
            "idle": self.idle,
            "episode": self._episode,
            "returns": self._returns,
            "arrays": self.arrays,
        }
        return {**contents, "out": self._out} if self._limit else contents

    def _recv_next(self, outcome: Outcome) -> Step:
        ended, restarting = self._add_rewards(outcome), np.flatnonzero(self.idle)
        episodes = self._records(ended)
        self.idle[:] = outcome.over
        if restarting.size:
            self._start(restarting)
        return self._step(outcome, advanced=self.num_envs - restarting.size, episodes=episodes)

    def _without_idle(self, outcome: Outcome) -> Outcome:
        live = ~self.idle[:, None]
        return Outcome(
            {name: np.where(live, reward, 0.0) for name, reward in outcome.reward.items()},
            {name: flags & live for name, flags in outcome.terminated.items()},
            {name: flags & live for name, flags in outcome.truncated.items()},
            outcome.over & ~self.idle,
        )

    def _cut_off(self, outcome: Outcome) -> Outcome:
        """Copies at their time limit: all who have not ended are truncated."""
        late = (self.time >= self._limit) & ~outcome.over & ~self.idle
        truncated = {}
        for name, out in self._out.items():
            out |= outcome.terminated[name] | outcome.truncated[name]
            truncated[name] = outcome.truncated[name] | (late[:, None] & ~out)
        return Outcome(outcome.reward, outcome.terminated, truncated, outcome.over | late)

    def _add_rewards(self, outcome: Outcome) -> Array:
        """Add up the returns; the rows that ended."""
        for name, sums in self._returns.items():
            sums += outcome.reward[name]
        return np.flatnonzero(outcome.over)

    def _start(self, rows: Array) -> None:
        self._episode[rows] += 1
        self.time[rows] = 0
        for sums, out in zip(self._returns.values(), self._out.values(), strict=True):
            sums[rows], out[rows] = 0.0, False
        self.begin(rows)

    def _records(self, rows: Array) -> list[Episode]:
        returns = {name: sums[rows] for name, sums in self._returns.items()}
        lengths = self.time[rows].tolist()
        return [
            Episode(row, lengths[i], {name: sums[i] for name, sums in returns.items()})
            for i, row in enumerate(rows.tolist())
        ]

    def _step(
        self,
        outcome: Outcome,
        final: ByGroup | None = None,
        *,
        advanced: int = 0,
        episodes: list[Episode] | None = None,
    ) -> Step:
        seen, acting, masks = self.observe(), self.acting(), self.action_masks()
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
        if self._autoreset == "next":
            for turn in turns.values():
                turn.acting &= ~self.idle[:, None]
        state = self.global_state(seen) if self.wants_state else None
        return Step(turns, state=state, advanced=advanced, episodes=episodes or [])
