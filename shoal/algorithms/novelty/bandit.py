"""The meta-controller: which way to explore pays, learnt from the returns of past episodes. A bandit per lane, all side by side.

Only the last `window` episodes of a lane count, since what an arm earns changes while the policy learns (Garivier and Moulines
2008; Badia et al. 2020, Agent57, appendix D). State is arrays `[lanes, window]`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from shoal.base.config import Config, Count
from shoal.base.seeding import generator

NOT_PLAYED = -1


class ControllerConfig(Config):
    """How arms are chosen, episode by episode and lane by lane."""

    kind: Literal["ucb1-tuned", "ucb"] = "ucb1-tuned"
    """What is added to an arm's mean for being little known: by its own spread (`ucb1-tuned`), or alike for all (`ucb`)."""
    window: Count = Field(90, ge=1)
    """Episodes of a lane that count."""
    bonus: float = Field(1.0, ge=0)
    """What that addition is multiplied with. Returns are brought to [0, 1] first, by the least and greatest of the window."""
    chance: float = Field(0.0, ge=0, le=1)
    """Share of episodes whose arm is drawn at random, all arms alike (0.5 in Agent57)."""


class Bandits:
    """One bandit per lane over `arms` arms. All chance follows from the seed, the lane's number and its episode.

    Legal order, lane by lane: `choose`, `reward` with what that arm earned.
    """

    def __init__(self, config: ControllerConfig, arms: int, lanes: np.ndarray, *, seed: int) -> None:
        self._config, self._arms, self._lanes, self._seed = config, arms, lanes, seed
        self._played = np.full((len(lanes), config.window), NOT_PLAYED)
        self._earned = np.zeros((len(lanes), config.window))
        self._ended = np.zeros(len(lanes), np.int64)
        self._chosen = np.full(len(lanes), NOT_PLAYED)

    def choose(self, rows: np.ndarray) -> np.ndarray:
        """An arm for the next episode of each of these lanes: int64."""
        counts, scores = self._scores(rows)
        arms = scores.argmax(1)
        for place, row in enumerate(rows.tolist()):
            random = generator(self._seed, "arm", int(self._lanes[row]), int(self._ended[row]))
            untried = np.flatnonzero(counts[place] == 0)
            if untried.size:
                arms[place] = random.choice(untried)
            elif random.random() < self._config.chance:
                arms[place] = random.integers(self._arms)
        self._chosen[rows] = arms
        return arms

    def reward(self, rows: np.ndarray, returns: np.ndarray) -> None:
        """What the last chosen arm of each of these lanes earned; of a full window the oldest episode is overwritten."""
        at = self._ended[rows] % self._config.window
        self._played[rows, at] = self._chosen[rows]
        self._earned[rows, at] = returns
        self._ended[rows] += 1

    def _scores(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of these lanes, `[rows, arms]`: episodes in the window, and the upper bound of what an arm may be worth."""
        played, earned = self._played[rows], self._earned[rows]
        seen = played != NOT_PLAYED
        of_arm = played[:, :, None] == np.arange(self._arms)
        counts = of_arm.sum(1)
        worth = _to_unit(earned, seen)[:, :, None] * of_arm
        known = np.maximum(counts, 1)
        mean = worth.sum(1) / known
        spread = np.maximum((worth**2).sum(1) / known - mean**2, 0.0)
        log = np.log(np.maximum(seen.sum(1), 1))[:, None]
        if self._config.kind == "ucb1-tuned":  # Auer et al. 2002, section 4
            wide = np.sqrt(log / known * np.minimum(0.25, spread + np.sqrt(2 * log / known)))
        else:  # Auer et al. 2002, figure 1
            wide = np.sqrt(2 * log / known)
        return counts, mean + self._config.bonus * wide

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, np.ndarray]:
        """All that it has learnt."""
        return {name: getattr(self, f"_{name}").copy() for name in ("played", "earned", "ended", "chosen")}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `state_dict` of as many lanes and an equal window."""
        for name, values in state.items():
            getattr(self, f"_{name}")[...] = values


def _to_unit(earned: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Returns of each window on a scale from its least, 0, to its greatest, 1; 0 where all are equal."""
    low = np.where(seen, earned, np.inf).min(1, keepdims=True)
    high = np.where(seen, earned, -np.inf).max(1, keepdims=True)
    span = np.where(high > low, high - low, 1.0)
    return np.where(seen, earned - np.where(np.isfinite(low), low, 0.0), 0.0) / span
