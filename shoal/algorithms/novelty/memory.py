"""How new an observation is within its episode: by its nearest neighbours among what the lane has seen since the episode began.

Badia et al. 2020 (never give up), algorithm 1. Embeddings in, one number each out; numpy, no processes.
"""

from __future__ import annotations

import numpy as np

KERNEL = 1e-4
"""Epsilon of the kernel epsilon / (distance + epsilon)."""
CLUSTER = 0.008
"""Neighbours nearer than this share of the mean distance are the same."""
FLOOR = 1e-3
"""Added to the similarity: the pseudo-count of what was never seen."""
MOST = 8.0
"""Similar beyond this: nothing new at all."""
PACE = 10_000
"""Decisions that the running mean of distances looks back on."""
_ROOM = 64
"""Decisions that a lane has room for at first; more is made as episodes last."""


class EpisodicMemory:
    """Of some lanes, each on its own. 1: at mean distance from all its neighbours; near 0: seen again and again.

    The paper's reward is divided by what that mean distance gives, so that 1 is the same whatever the constants are. While an
    episode is shorter than `neighbours`, those that are missing count as ones at mean distance.
    """

    def __init__(self, lanes: int, width: int, *, neighbours: int, capacity: int) -> None:
        self._neighbours, self._capacity = neighbours, capacity
        self._seen = np.zeros((lanes, min(capacity, _ROOM), width), np.float32)
        self._written = np.zeros(lanes, np.int64)
        self._mean = np.zeros(lanes)
        self._updates = np.zeros(lanes, np.int64)
        self._unit = _reward(np.ones((1, neighbours)))

    def forget(self, rows: np.ndarray) -> None:
        """Episodes begin in these lanes. The mean distance stays."""
        self._written[rows] = 0

    def novelty(self, rows: np.ndarray, embedding: np.ndarray) -> np.ndarray:
        """How new `[n, width]` is to these lanes -> float64 `[n]`; then it is remembered."""
        distances = self._nearest(rows, embedding)
        self._follow(rows, distances)
        mean = self._mean[rows, None]
        # All distances were 0 so far: 0 / 0 is "the same".
        relative = np.divide(distances, mean, out=np.zeros_like(distances), where=mean > 0)
        relative[np.isinf(distances)] = 1.0
        self._remember(rows, embedding)
        return _reward(relative) / self._unit

    def _nearest(self, rows: np.ndarray, embedding: np.ndarray) -> np.ndarray:
        """Squared distances `[n, neighbours]`; infinite where there are not so many."""
        held = np.minimum(self._written[rows], self._seen.shape[1])
        most, k = int(held.max(initial=0)), self._neighbours
        found = np.full((len(rows), max(most, k)), np.inf)
        if most:
            apart = self._seen[rows, :most] - embedding[:, None]
            found[:, :most] = np.einsum("nme,nme->nm", apart, apart)
            found[:, :most][np.arange(most) >= held[:, None]] = np.inf
        return np.partition(found, k - 1, axis=1)[:, :k]

    def _follow(self, rows: np.ndarray, distances: np.ndarray) -> None:
        """Running mean of the squared distances to neighbours that are there."""
        there = np.isfinite(distances)
        count = there.sum(1)
        some = count > 0
        lanes = rows[some]
        now = np.where(there, distances, 0.0).sum(1)[some] / count[some]
        self._updates[lanes] += 1
        self._mean[lanes] += (now - self._mean[lanes]) / np.minimum(self._updates[lanes], PACE)

    def _remember(self, rows: np.ndarray, embedding: np.ndarray) -> None:
        room = self._seen.shape[1]
        if room < self._capacity and self._written[rows].max(initial=0) >= room:
            more = min(2 * room, self._capacity) - room
            self._seen = np.concatenate(
                [self._seen, np.zeros((len(self._seen), more, self._seen.shape[2]), np.float32)], 1
            )
        self._seen[rows, self._written[rows] % self._seen.shape[1]] = embedding
        self._written[rows] += 1

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        """What the open episodes saw, and the mean distances."""
        held = min(int(self._written.max(initial=0)), self._seen.shape[1])
        kept = {name: getattr(self, f"_{name}").copy() for name in ("written", "mean", "updates")}
        return {**kept, "seen": self._seen[:, :held].copy(), "room": np.array(self._seen.shape[1])}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `state_dict` of as many lanes."""
        for name in ("written", "mean", "updates"):
            getattr(self, f"_{name}")[...] = state[name]
        seen = state["seen"]
        self._seen = np.zeros((len(seen), int(state["room"]), seen.shape[2]), np.float32)
        self._seen[:, : seen.shape[1]] = seen


def _reward(relative: np.ndarray) -> np.ndarray:
    """Squared distances over their mean `[n, neighbours]` -> the paper's episodic reward `[n]`."""
    kernel = KERNEL / (np.maximum(relative - CLUSTER, 0.0) + KERNEL)
    similar = np.sqrt(kernel.sum(1)) + FLOOR
    return np.where(similar > MOST, 0.0, 1 / similar)
