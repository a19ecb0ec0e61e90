"""Prioritised replay (Schaul et al. 2016, proportional): what surprised most is drawn most, and counts less each time."""

from __future__ import annotations

import numpy as np
import torch

from shoal.api.algorithm import Priorities
from shoal.api.fragment import Fragment
from shoal.api.metric import Last, Metric
from shoal.buffers.columns import HERE
from shoal.buffers.sequences import SequenceReplay
from shoal.buffers.stacks import Stack
from shoal.buffers.sum_tree import SumTree, tree_nbytes
from shoal.buffers.weights import batch_weights, beta_at

LEAST = 1e-6
"""Added to every priority: a sequence without error may be drawn again."""


class PrioritisedReplay(SequenceReplay):
    """Draws sequence i with chance P(i) = p_i ** alpha / sum, and gives it the weight (N P(i)) ** -beta, at most 1 in a batch.

    New sequences get the priority that comes with their fragment; where none does, the greatest that was seen, 1 at first.
    """

    def __init__(
        self,
        example: Fragment,
        sequences: int,
        priorities: Priorities,
        *,
        seed: int,
        slot: int = 0,
        stack: Stack | None = None,
        device: torch.device = HERE,
    ) -> None:
        super().__init__(example, sequences, seed=seed, slot=slot, stack=stack, device=device)
        self._priorities, self._tree = priorities, SumTree(sequences)
        self._greatest, self._beta = 1.0, beta_at(priorities, 0)
        self.stale = 0
        """Keys that were reported after their sequence had made room for another."""

    @property
    def nbytes(self) -> int:
        return super().nbytes + tree_nbytes(self.sequences)

    def insert(self, fragment: Fragment) -> np.ndarray:
        lanes = super().insert(fragment)
        known = np.full(len(lanes), np.nan) if fragment.priority is None else fragment.priority[lanes]
        keys = np.arange(self._next - len(lanes), self._next)
        self._set(keys, np.where(np.isnan(known), self._greatest, known))
        return lanes

    def revalue(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """New priorities of what was drawn. What has been overwritten since keeps the priority of what is there now."""
        self.stale += len(keys) - self._set(keys, priorities)

    def _set(self, keys: np.ndarray, priorities: np.ndarray) -> int:
        """Of those that are still held; their number."""
        held = (keys - (self._next - self.filled)).view(np.uint64) < self.filled  # those below 0 count as huge
        if not held.all():
            keys, priorities = keys[held], priorities[held]
        priorities = priorities.astype(np.float64)
        self._tree.set(keys % self.sequences, (priorities + LEAST) ** self._priorities.alpha)
        self._greatest = max(self._greatest, float(priorities.max(initial=0.0)))
        return len(keys)

    def sample(self, sequences: int, update: int, steps: int = 0) -> Fragment:
        places = self._places(sequences, update)
        drawn = self._columns.drawn(places)
        drawn.keys = self._keys(places)
        self._beta = beta_at(self._priorities, steps)
        drawn.weights = batch_weights([(self._chances(places), self.filled)], self._beta)
        return drawn

    def _places(self, sequences: int, update: int) -> np.ndarray:
        if not self.filled:
            raise ValueError("nothing to sample: insert comes first")
        return self._tree.draw(self._random(update).random(sequences))

    def _chances(self, places: np.ndarray) -> np.ndarray:
        return self._tree.values.take(places) / self._tree.total

    def metrics(self) -> dict[str, Metric]:
        """How full it is, and how far from even."""
        return {
            **super().metrics(),
            "replay/greatest_priority": Last(self._greatest),
            "replay/beta": Last(self._beta),
            "replay/stale": Last(self.stale),
        }

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        own = {
            "priorities": self._tree.values.copy(),
            "greatest": np.array(self._greatest),
            "stale": np.array(self.stale),
        }
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        super().load_state_dict(state)
        self._tree.set(np.arange(self.sequences), state["priorities"])
        self._greatest, self.stale = float(state["greatest"]), int(state["stale"])
