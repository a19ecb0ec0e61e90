"""What an environment did, copied step by step: the arrays of a Step are valid only until the next `send`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shoal.api.env import AgentGroup, Array, Env, Step, Tree, Turn
from shoal.base.tree import tree_leaves, tree_map
from shoal.testing.sampler import ActionSampler


@dataclass
class Recording:
    """The steps of one environment under random play, the answer to `reset` first."""

    groups: dict[str, AgentGroup]
    num_envs: int
    steps: list[Step] = field(default_factory=list)
    error: Exception | None = None
    """What ended the recording early."""

    def turns(self) -> Iterator[tuple[str, AgentGroup, Turn]]:
        """Every turn of every group, with words for where it stands."""
        for time, step in enumerate(self.steps):
            for name, group in self.groups.items():
                if name in step.turns:
                    yield f"group '{name}' after {time} steps", group, step.turns[name]


def play(env: Env, first: Callable[[], Step], sampler: ActionSampler, steps: int) -> Recording:
    """Record `first()` and `steps` steps of random play; an exception ends the recording and is kept."""
    recording = Recording(env.groups, env.num_envs)
    try:
        recording.steps.append(copy_step(first()))
        for _ in range(steps):
            recording.steps.append(copy_step(env.step(sampler.sample(recording.steps[-1]))))
    except Exception as error:
        recording.error = error
    return recording


def copy_step(step: Step) -> Step:
    """A Step that outlives the next `send`."""
    turns = {
        name: Turn(**{key: _copy(value) for key, value in vars(turn).items()}) for name, turn in step.turns.items()
    }
    return replace(step, turns=turns, state=_copy(step.state), final_state=_copy(step.final_state))


def _copy(tree: Tree) -> Tree:
    return tree_map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, tree)


def first_difference(one: Recording, other: Recording) -> str | None:
    """Where two recordings part, in words; None: they are equal bit for bit."""
    for time, (left, right) in enumerate(zip(one.steps, other.steps, strict=False)):
        for name in left.turns:
            for key, value in _compared(left.turns[name]).items():
                if not _equal(value, _compared(right.turns[name])[key]):
                    return f"{key} of group '{name}' after {time} steps"
        if not _equal(left.state, right.state):
            return f"state after {time} steps"
        if not _equal(left.final_state, right.final_state):
            return f"final_state after {time} steps"
        if left.advanced != right.advanced or len(left.episodes) != len(right.episodes):
            return f"the count of steps or episodes after {time} steps"
    return None if len(one.steps) == len(other.steps) else "the number of steps"


def _compared(turn: Turn) -> dict[str, Any]:
    """The fields of a turn, without the rows of `final_observation` that hold anything."""
    ended = turn.terminated | turn.truncated
    final = tree_map(lambda leaf: leaf[ended], turn.final_observation) if ended.any() else None
    return {**vars(turn), "final_observation": final}


def _equal(one: Tree, other: Tree) -> bool:
    left, right = list(tree_leaves(one)), list(tree_leaves(other))
    return len(left) == len(right) and all(
        a == b and _same_bits(x, y) for (a, x), (b, y) in zip(left, right, strict=True)
    )


def _same_bits(one: Array, other: Array) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()
