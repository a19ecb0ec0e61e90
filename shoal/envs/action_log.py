"""The actions of the open episodes of some copies: enough to replay them, where an environment cannot be copied.

An environment that steps in Python is a function of its episode's seed and the actions since. So its snapshot is both, and its
last observation: an environment that shows another one after the same actions is not deterministic, and is not restored.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shoal.api.env import Array, Tree
from shoal.base.errors import ShoalError
from shoal.base.tree import tree_leaves, tree_map

LONGEST = 100_000
"""Steps of an open episode that are kept; of a longer one there is no snapshot."""
_SLACK = 1_000
"""Steps that may lie about before they are thrown away."""


class NotRestoredError(ShoalError):
    """The replayed actions led elsewhere: the environment is not deterministic."""


class ActionLog:
    """Actions by group, `[num_envs, agents, ...]`, of the steps since the oldest open episode began."""

    def __init__(self) -> None:
        self._steps: list[dict[str, Array]] = []
        self._from = 0

    def clear(self) -> None:
        """Episodes begin everywhere, at step 0."""
        self._steps, self._from = [], 0

    def add(self, actions: dict[str, Array], began: list[int]) -> None:
        """A step; `began`: the step at which each copy's episode did."""
        self._steps.append({group: np.array(array) for group, array in actions.items()})
        if len(self._steps) % _SLACK == 0:
            removed = min(min(began) - self._from, len(self._steps))
            removed = max(removed, len(self._steps) - LONGEST)
            del self._steps[:removed]
            self._from += removed

    def snapshot(self, began: list[int]) -> Tree | None:
        """All that is needed to repeat the open episodes; None: one of them is too long."""
        oldest = min(began)
        if oldest < self._from:
            return None
        steps = self._steps[oldest - self._from :]
        stacked = {group: np.stack([step[group] for step in steps]) for group in steps[0]} if steps else {}
        return {"from": oldest, "began": np.array(began), "actions": stacked}

    def restore(self, tree: Tree) -> None:
        """Go on from `snapshot`."""
        self._from = tree["from"]
        count = next((len(array) for array in tree["actions"].values()), 0)
        self._steps = [{group: array[i] for group, array in tree["actions"].items()} for i in range(count)]

    def episodes(self, began: list[int]) -> Iterator[tuple[list[int], dict[str, Array]]]:
        """The open episodes once more, all from their beginnings: which copies step, and actions in which theirs are right."""
        lengths = [self._from + len(self._steps) - start for start in began]
        for t in range(max(lengths)):
            rows = [row for row, length in enumerate(lengths) if t < length]
            actions = {group: array.copy() for group, array in self._steps[0].items()}
            for row in rows:
                for group, array in self._steps[began[row] + t - self._from].items():
                    actions[group][row] = array[row]
            yield rows, actions


def check_repeated(name: str, was: Tree, seen: Tree) -> None:
    """The observation now must equal the stored one."""
    now = dict(tree_leaves(seen))
    for path, leaf in tree_leaves(was):
        if not np.array_equal(leaf, now[path], equal_nan=leaf.dtype.kind == "f"):
            raise NotRestoredError(
                f"{name} does not repeat itself, the same seed and actions led elsewhere: "
                "resume with placement.exact=false, then its episodes begin anew"
            )


def copied(tree: Tree) -> Tree:
    """Arrays of its own."""
    return tree_map(np.copy, tree)
