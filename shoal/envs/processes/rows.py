"""What the copies answered, row by row, as the arrays of one batch. Rows that are still under way act nowhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.api.env import Episode, Step, Tree, Turn
from shoal.base.tree import tree_map


class Rows:
    """Written in place, so a Step is valid until the next `clear`. `inbox`: the memory that each copy writes into."""

    def __init__(self, inbox: list[Tree]) -> None:
        self._inbox = [row["seen"] for row in inbox]
        self._seen: Tree = tree_map(lambda array: np.zeros((len(inbox), *array.shape), array.dtype), self._inbox[0])
        turns = self._seen["turns"].values()
        self._flags = [turn[key] for turn in turns for key in ("reward", "terminated", "truncated", "acting")]
        self._alive = {name: np.zeros(turn["acting"].shape, bool) for name, turn in self._seen["turns"].items()}
        self._returns = {name: np.zeros(turn["acting"].shape) for name, turn in self._seen["turns"].items()}
        self._lengths = np.zeros(len(inbox), np.int64)
        self._episodes: list[Episode] = []
        self._final, self._advanced = False, 0

    def snapshot(self) -> Tree:
        """What is known of the episodes under way."""
        return tree_map(np.copy, self._contents())

    def restore(self, tree: Tree) -> None:
        """Go on from `snapshot`."""
        tree_map(np.copyto, self._contents(), tree)

    def _contents(self) -> Tree:
        return {"seen": self._seen, "alive": self._alive, "returns": self._returns, "lengths": self._lengths}

    def clear(self) -> None:
        """Before a step: nobody has answered."""
        for flags in self._flags:
            flags.fill(0)
        self._episodes, self._final, self._advanced = [], False, 0

    def take(self, row: int, answer: dict[str, Any]) -> None:
        """The answer of a copy to a step or to a reset, whose arrays are in its memory."""
        tree_map(lambda array, part: np.copyto(array[row], part), self._seen, self._inbox[row])
        self._advanced += answer["advanced"]
        self._final = self._final or answer["final"]
        self._lengths[row] += answer["advanced"]
        for name, turn in self._seen["turns"].items():
            self._returns[name][row] += turn["reward"][row]
            ended = turn["terminated"][row] | turn["truncated"][row]
            self._alive[name][row] = (self._alive[name][row] & ~ended) | turn["acting"][row]
        for length, returns, metrics in answer["episodes"]:
            known = {name: np.array(values) for name, values in returns.items()}
            self._episodes.append(Episode(row, length, known, metrics))
            self._forget(row)

    def cut(self, row: int, answer: dict[str, Any], metrics: dict[str, float]) -> None:
        """The answer of a copy that was started anew: the episode before was cut off where it stood."""
        turns = self._seen["turns"]
        alive = {name: self._alive[name][row].copy() for name in turns}
        last = {name: tree_map(lambda array: array[row].copy(), turn["observation"]) for name, turn in turns.items()}
        state = tree_map(lambda array: array[row].copy(), self._seen["state"])
        returns = {name: sums[row].copy() for name, sums in self._returns.items()}
        episode = Episode(row, int(self._lengths[row]), returns, metrics)
        self._forget(row)
        for lives in self._alive.values():
            lives[row] = False
        self.take(row, answer)
        self._final = True
        for name, turn in turns.items():
            turn["truncated"][row] = alive[name]
            tree_map(lambda array, part: np.copyto(array[row], part), turn["final_observation"], last[name])
        tree_map(lambda array, part: np.copyto(array[row], part), self._seen["final_state"], state)
        self._episodes.append(episode)

    def step(self) -> Step:
        """Of all rows."""
        turns = {}
        for name, turn in self._seen["turns"].items():
            turns[name] = Turn(**{**turn, "final_observation": turn["final_observation"] if self._final else None})
        state, final_state = self._seen["state"], self._seen["final_state"]
        episodes = sorted(self._episodes, key=lambda episode: episode.row)
        last = final_state if self._final and episodes else None
        return Step(turns, state=state, final_state=last, advanced=self._advanced, episodes=episodes)

    def _forget(self, row: int) -> None:
        self._lengths[row] = 0
        for sums in self._returns.values():
            sums[row] = 0.0
