"""The global state as central critics see it, and the observations that lanes store beside their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box

from shoal.api.env import AgentGroup, Array, Env, Step, Turn
from shoal.api.sight import AGENT, OWN, STATE
from shoal.base.errors import ShoalError
from shoal.base.tree import Tree, tree_leaves, tree_map
from shoal.envs.spaces import flat
from shoal.rollout.trajectory import View


class Seen(NamedTuple):
    """Of one Step, `[rows, ...]`."""

    now: Array
    final: Array | None
    """Where an agent ended: what there was before the copy began anew; None: nobody ended."""


class GlobalStateView:
    """Steps in, what a central critic sees out: the environment's state, or else all agents' observations, zeros for the dead.

    Observations are flattened, discrete ones one-hot, in the order of the groups and their agents.
    """

    def __init__(self, env: Env) -> None:
        self._groups = env.groups
        self._alive = {name: np.ones((env.num_envs, len(group.agents)), bool) for name, group in env.groups.items()}
        self._over = np.zeros(env.num_envs, bool)

    def see(self, step: Step) -> Seen:
        """Take in an answer, that of `reset` first."""
        ended = any(np.count_nonzero(turn.terminated | turn.truncated) for turn in step.turns.values())
        if step.state is not None:
            return Seen(_as_one(step.state), _as_one(_final_state(step)) if ended else None)
        began = self._began(step)
        parts = [self._look(name, turn, began) for name, turn in step.turns.items()]
        rows = len(self._over)
        now = np.concatenate([part.now.reshape(rows, -1) for part in parts], axis=1)
        if not ended:
            return Seen(now, None)
        return Seen(now, np.concatenate([part.final.reshape(rows, -1) for part in parts], axis=1))  # type: ignore[union-attr]

    def snapshot(self) -> Tree:
        """Who lives, and which copies are over."""
        return tree_map(np.copy, {"alive": self._alive, "over": self._over})

    def restore(self, tree: Tree) -> None:
        """Go on from `snapshot`."""
        tree_map(np.copyto, {"alive": self._alive, "over": self._over}, tree)

    def _began(self, step: Step) -> Array:
        """bool `[rows]`: copies in which a new episode begins with this step, which is where somebody acts again."""
        self._over[[episode.row for episode in step.episodes]] = True
        began = self._over & np.logical_or.reduce([turn.acting.any(axis=1) for turn in step.turns.values()])
        self._over &= ~began
        return began

    def _look(self, name: str, turn: Turn, began: Array) -> Seen:
        """Of one group, `[rows, agents, width]`."""
        ended, alive = turn.terminated | turn.truncated, self._alive[name]
        alive &= ~ended
        alive |= turn.acting | began[:, None]
        space = self._groups[name].observation_space
        shown = flat(space, turn.observation)
        now = np.where(alive[..., None], shown, np.float32(0))
        last = shown if turn.final_observation is None else flat(space, turn.final_observation)
        others = np.where(began[:, None, None], np.float32(0), now)  # who did not end with its copy was dead before
        return Seen(now, np.where(ended[..., None], last, others))


def state_space_of(groups: dict[str, AgentGroup], step: Step) -> Space[Any]:
    """What `GlobalStateView` gives for one copy."""
    if step.state is None:
        width = sum(flat(g.observation_space, step.turns[n].observation)[0].size for n, g in groups.items())
        return Box(-np.inf, np.inf, (width,), np.float32)
    state = _as_one(step.state)
    if state.dtype.kind == "f":
        return Box(-np.inf, np.inf, state.shape[1:], state.dtype.type)
    bounds = np.iinfo(state.dtype)
    return Box(bounds.min, bounds.max, state.shape[1:], bounds.dtype.type)


def _final_state(step: Step) -> Tree:
    if step.final_state is not None:
        return step.final_state
    if any(turn.final_observation is not None for turn in step.turns.values()) and step.episodes:
        raise ShoalError(
            "a copy began anew, and its last state is lost: let the Env give Step.final_state beside `state`"
        )
    return step.state


def _as_one(state: Tree) -> Array:
    """An array as it is, parts side by side."""
    if isinstance(state, np.ndarray):
        return state.astype({"f": np.float32, "b": np.uint8}.get(state.dtype.kind, state.dtype), copy=False)
    parts = [leaf.reshape(len(leaf), -1) for _, leaf in tree_leaves(state)]
    return np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")


class StoredObservations:
    """What the lanes of one seat store of a view.

    agents         above 0: the policy is told which of its so many agents a lane is
    global_state   its critic sees the global state
    whole          the policy is given all of it, not only what deciding takes
    """

    def __init__(self, lanes: int, agents: int, *, global_state: bool, whole: bool = False) -> None:
        self.global_state, self._whole = global_state, whole
        self._agent = np.arange(lanes) % agents if agents else None

    def of(self, view: View, seen: Seen | None) -> View:
        """The view as it is stored."""
        if self._agent is None and not self.global_state:
            return view
        if not self.global_state or seen is None:
            final = None if view.final_observation is None else self._join(view.final_observation, None)
            return replace(view, observation=self._join(view.observation, None), final_observation=final)
        final, last = view.final_observation, seen.final
        if (
            last is not None
        ):  # even where the own last observation is the present one: the environment goes on without the dead
            final = self._join(view.observation if final is None else final, last)
        return replace(view, observation=self._join(view.observation, seen.now), final_observation=final)

    def _join(self, own: Tree, state: Array | None) -> Tree:
        parts = {OWN: own}
        if self._agent is not None:
            parts[AGENT] = self._agent
        if state is not None:
            lanes = len(next(leaf for _, leaf in tree_leaves(own)))
            parts[STATE] = np.repeat(state, lanes // len(state), axis=0)
        return parts

    def policy_input(self, stored: Tree) -> Tree:
        """What a request holds of it."""
        return stored if self._whole else self.to_decide(stored)

    def to_decide(self, stored: Tree) -> Tree:
        """What deciding takes of it."""
        if not self.global_state:
            return stored
        return stored[OWN] if self._agent is None else {OWN: stored[OWN], AGENT: stored[AGENT]}
