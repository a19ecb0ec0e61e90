"""The explorer of novelty: arms for episodes, a memory for each, and the returns that tell which arm pays."""

from __future__ import annotations

import numpy as np

from shoal.algorithms.novelty.bandit import Bandits
from shoal.algorithms.novelty.config import NoveltyConfig
from shoal.algorithms.novelty.memory import EpisodicMemory
from shoal.algorithms.q_learning.ladder import LadderExplorer
from shoal.api.explorer import Explorer
from shoal.api.metric import Mean, Metric, Total, merge_into
from shoal.base.tree import Tree


class CuriousExplorer(Explorer):
    """Knobs: the arm, behind the rate of a ladder where there is one. Columns: `arm`, `novelty`, and the ladder's."""

    def __init__(
        self, config: NoveltyConfig, lanes: np.ndarray, width: int, *, seed: int, ladder: LadderExplorer | None = None
    ) -> None:
        self._config, self._lanes, self._ladder = config, lanes, ladder
        self._memory = EpisodicMemory(len(lanes), width, neighbours=config.neighbours, capacity=config.memory)
        self._bandits = Bandits(config.controller, config.arms, lanes, seed=seed) if config.controller else None
        self._arm = lanes % config.arms
        self._metrics: dict[str, Metric] = {}

    def begin(self, rows: np.ndarray) -> np.ndarray:
        self._memory.forget(rows)
        if self._bandits is not None:
            self._arm[rows] = self._bandits.choose(rows)
        arms = self._arm[rows, None].astype(np.float32)
        return arms if self._ladder is None else np.concatenate([self._ladder.begin(rows), arms], 1)

    def shape(self, extras: dict[str, np.ndarray], knobs: np.ndarray, acting: np.ndarray) -> dict[str, np.ndarray]:
        rows = np.flatnonzero(acting)
        novelty = np.zeros(len(acting), np.float32)
        within = self._memory.novelty(rows, extras["embedding"][rows])
        novelty[rows] = within * extras["surprise"][rows].clip(1.0, self._config.limit)
        if len(rows):
            merge_into(self._metrics, {"novelty": Mean(float(novelty[rows].mean()), len(rows))})
        columns = {"arm": knobs[:, -1], "novelty": novelty}
        return columns if self._ladder is None else {**self._ladder.shape({}, knobs, acting), **columns}

    def end(self, rows: np.ndarray, returns: np.ndarray) -> None:
        if self._bandits is not None:
            self._bandits.reward(rows, returns)
        if self._ladder is not None:
            self._ladder.end(rows, returns)
        for arm, earned in zip(self._arm[rows].tolist(), returns.tolist(), strict=True):
            merge_into(self._metrics, {f"arm/{arm}/return": Mean(earned), f"arm/{arm}/episodes": Total(1)})

    def snapshot(self) -> Tree:
        bandits = None if self._bandits is None else self._bandits.state_dict()
        return {"memory": self._memory.state_dict(), "bandits": bandits, "arm": self._arm.copy()}

    def restore(self, tree: Tree) -> None:
        self._memory.load_state_dict(tree["memory"])
        if self._bandits is not None:
            self._bandits.load_state_dict(tree["bandits"])
        self._arm[:] = tree["arm"]

    def metrics(self) -> dict[str, Metric]:
        told = {**self._metrics, **(self._ladder.metrics() if self._ladder else {})}
        self._metrics = {}
        return told
