"""Who makes the lanes of a run explore in different ways, episode by episode."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from shoal.api.metric import Metric
from shoal.base.tree import Tree


class Explorer(ABC):
    """Lives in the actor, beside one seat. Built for that seat's lanes by their run-wide numbers; has no networks of its own.

    What it keeps dies with its actor. So whatever must not change when an actor starts anew follows from the lane's number.
    `rows` are places among its lanes, int64. Legal order, lane by lane: `begin`, `shape` at every decision, `end`; again `begin`.
    """

    @abstractmethod
    def begin(self, rows: np.ndarray) -> np.ndarray:
        """Episodes start. float32 `[len(rows), len(policy.knobs)]`: goes with every request until they end."""

    @abstractmethod
    def shape(self, extras: dict[str, np.ndarray], knobs: np.ndarray, acting: np.ndarray) -> dict[str, np.ndarray]:
        """What the fragment stores of a decision, by the names in `Needs.stored_extras`. All `[B, ...]`, of all its lanes.

        `extras`: what `Policy.act` gave. `acting`: bool, the lanes that decided; of the others nothing is stored.
        """

    def end(self, rows: np.ndarray, returns: np.ndarray) -> None:
        """Episodes ended with these returns: float64, undiscounted, as the environment paid them."""
        return

    def snapshot(self) -> Tree | None:
        """Arrays and numbers to go on from, in the middle of episodes; None: it cannot, so open episodes begin anew."""
        return None

    def restore(self, tree: Tree) -> None:
        """Go on from `snapshot`, with the same lanes."""
        raise NotImplementedError(f"{type(self).__name__} cannot restore")

    def metrics(self) -> dict[str, Metric]:
        """What there is to tell since the last time; shown as `rollout/<name>`."""
        return {}
