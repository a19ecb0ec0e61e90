"""Checks of an Env's arrays, over one recording: shapes, dtypes, values, masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from shoal.api.env import AgentGroup, Array, Tree
from shoal.base.tree import tree_leaves
from shoal.envs.spaces import leaves_of
from shoal.testing.check import Broken, expect
from shoal.testing.recording import Recording


def spaces_are_supported(recording: Recording) -> str:
    """Every space has an array, and discrete actions count from 0."""
    for name, group in recording.groups.items():
        for space in leaves_of(group.observation_space):
            known = isinstance(space, Box | Discrete | MultiDiscrete | MultiBinary)
            expect(
                known,
                f"group '{name}' observes {space}: declare Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple",
            )
        space = group.action_space
        known = isinstance(space, Box | Discrete | MultiDiscrete | MultiBinary)
        expect(known, f"group '{name}' acts in {space}: declare Discrete, MultiDiscrete, MultiBinary or Box")
        start = space.start if isinstance(space, Discrete | MultiDiscrete) else 0
        expect(
            not np.any(start), f"group '{name}' acts in {space}: policies count from 0, so add `start` inside `send`"
        )
    return ""


def every_answer_speaks_of_all_groups(recording: Recording) -> str:
    """Each Step has a Turn for every group."""
    for time, step in enumerate(recording.steps):
        missing = set(recording.groups) ^ set(step.turns)
        expect(
            not missing,
            f"after {time} steps the turns and `groups` differ in {sorted(missing)}: give each group a Turn",
        )
    return ""


def arrays_have_the_declared_shapes_and_dtypes(recording: Recording) -> str:
    """Observations as their space says; rewards float32 `[rows, agents]`."""
    for where, group, turn in recording.turns():
        shape = (recording.num_envs, len(group.agents))
        _expect_array(turn.reward, shape, np.dtype(np.float32), f"reward of {where}")
        for field in ("observation", "final_observation"):
            tree = getattr(turn, field)
            if field == "observation" or tree is not None:
                for path, space, leaf in _leaves(group.observation_space, tree, field):
                    _expect_array(leaf, (*shape, *(space.shape or ())), space.dtype, f"{path} of {where}")
    return ""


def terminated_truncated_and_acting_are_bools(recording: Recording) -> str:
    """Flags are bool `[rows, agents]`."""
    for where, group, turn in recording.turns():
        for field in ("terminated", "truncated", "acting"):
            shape = (recording.num_envs, len(group.agents))
            _expect_array(getattr(turn, field), shape, np.dtype(bool), f"{field} of {where}")
    return ""


def observations_lie_in_their_spaces(recording: Recording) -> str:
    """What agents act on, and what they saw last, is finite and within bounds."""
    for where, group, turn in recording.turns():
        ended = turn.terminated | turn.truncated
        _expect_inside(group, turn.observation, turn.acting | ended, f"observation of {where}")
        if turn.final_observation is not None:
            _expect_inside(group, turn.final_observation, ended, f"final_observation of {where}")
    return ""


def rewards_are_finite(recording: Recording) -> str:
    """No NaN and no infinity."""
    for where, _, turn in recording.turns():
        expect(
            np.isfinite(turn.reward).all(),
            f"the reward of {where} is {turn.reward.tolist()}: find the division behind it",
        )
    return ""


def action_masks_are_bool_and_allow_an_action(recording: Recording) -> str:
    """A mask comes always or never, as bool `[rows, agents, actions]`, with an allowed action for everyone who acts."""
    given = {name: turn.action_mask is not None for name, turn in recording.steps[0].turns.items()}
    for where, group, turn in recording.turns():
        name = next(key for key, value in recording.groups.items() if value is group)
        expect((turn.action_mask is not None) == given[name], f"{where}: give action_mask with every Turn or with none")
        if turn.action_mask is None:
            continue
        space = group.action_space
        counts = (
            [int(space.n)] if isinstance(space, Discrete) else getattr(space, "nvec", np.zeros(0, int)).ravel().tolist()
        )
        expect(counts, f"{where} has an action_mask, but {space} cannot be masked")
        _expect_array(
            turn.action_mask,
            (recording.num_envs, len(group.agents), sum(counts)),
            np.dtype(bool),
            f"action_mask of {where}",
        )
        for part in np.split(turn.action_mask, np.cumsum(counts)[:-1], axis=-1):
            expect(
                (part.any(axis=-1) | ~turn.acting).all(),
                f"the action_mask of {where} forbids everything: allow one action",
            )
    return ""


def the_state_comes_always_or_never(recording: Recording) -> str:
    """The global state, where there is one, has a row for every copy and one shape."""
    first = dict(tree_leaves(recording.steps[0].state))
    for time, step in enumerate(recording.steps):
        leaves = dict(tree_leaves(step.state))
        expect(leaves.keys() == first.keys(), f"after {time} steps: give `state` with every Step or with none")
        for path, leaf in leaves.items():
            shape = (recording.num_envs, *first[path].shape[1:])
            _expect_array(leaf, shape, first[path].dtype, f"state {path} after {time} steps".replace("  ", " "))
        anew = any(turn.final_observation is not None for turn in step.turns.values()) and bool(step.episodes)
        final = dict(tree_leaves(step.final_state))
        expect(
            not (first and anew) or final.keys() == first.keys(),
            f"after {time} steps: give `final_state` where copies with a state began anew",
        )
        for path, leaf in final.items():
            _expect_array(leaf, (recording.num_envs, *first[path].shape[1:]), first[path].dtype, f"final_state {path}")
    return ""


# ---------------------------------------------------------------- the parts


def _leaves(space: Space[Any], tree: Tree, path: str) -> Iterator[tuple[str, Space[Any], Array]]:
    """Leaf spaces beside their arrays; Broken where the tree has another form than the space."""
    if isinstance(space, Dict):
        same = isinstance(tree, dict) and tree.keys() == space.spaces.keys()
        expect(same, f"{path} should be a dict with the keys {sorted(space.spaces)}")
        for key, part in space.spaces.items():
            yield from _leaves(part, tree[key], f"{path}[{key!r}]")
    elif isinstance(space, Tuple):
        expect(
            isinstance(tree, tuple) and len(tree) == len(space.spaces),
            f"{path} should be a tuple of {len(space.spaces)}",
        )
        for i, part in enumerate(space.spaces):
            yield from _leaves(part, tree[i], f"{path}[{i}]")
    else:
        yield path, space, tree


def _expect_array(array: Any, shape: tuple[int, ...], dtype: Any, what: str) -> None:
    if not isinstance(array, np.ndarray):
        raise Broken(f"{what} is a {type(array).__name__}: make it a numpy array of shape {shape}")
    good = array.shape == shape and array.dtype == dtype
    expect(good, f"{what} has shape {array.shape} and dtype {array.dtype}: make it {shape} and {dtype}")


def _expect_inside(group: AgentGroup, tree: Tree, who: Array, what: str) -> None:
    for path, space, leaf in _leaves(group.observation_space, tree, what):
        values = leaf[who]
        if np.issubdtype(values.dtype, np.floating):
            expect(np.isfinite(values).all(), f"{path} is not finite: find the division or overflow behind it")
        low, high = _bounds(space)
        slack = 1e-5 * np.maximum(1.0, np.abs(values)) if np.issubdtype(values.dtype, np.floating) else 0
        outside = (values < low - slack) | (values > high + slack)
        if outside.any():
            raise Broken(f"{path} holds {values[outside][0]}, outside {space}: widen the space or clip the observation")


def _bounds(space: Any) -> tuple[Any, Any]:
    if isinstance(space, Box):
        return space.low, space.high
    if isinstance(space, Discrete):
        return space.start, space.start + space.n - 1
    if isinstance(space, MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return 0, 1
