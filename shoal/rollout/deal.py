"""Who plays whom, dealt anew in each episode: the agents of a group in a new order for the policies that play them."""

from __future__ import annotations

import numpy as np

from shoal.base.seeding import generator


class Deal:
    """The present deal of some env copies. `cast`: group -> the policy of each of its agents, before they are shuffled."""

    def __init__(self, cast: dict[str, list[str]], num_envs: int, *, seed: int, first_slot: int) -> None:
        self._cast = {group: np.array(policies) for group, policies in cast.items()}
        self._home = {policy: group for group, policies in cast.items() for policy in policies}
        self._seed, self._first_slot = seed, first_slot
        self._episodes = np.zeros(num_envs, np.int64)
        self._dealt = {group: np.empty((num_envs, len(policies)), object) for group, policies in cast.items()}
        self.anew(list(range(num_envs)))

    def anew(self, rows: list[int]) -> None:
        """New episodes begin in these copies."""
        for row in rows:
            random = generator(self._seed, "deal", self._first_slot + row, int(self._episodes[row]))
            for group, policies in self._cast.items():
                self._dealt[group][row] = random.permutation(policies)
            self._episodes[row] += 1

    def snapshot(self) -> np.ndarray:
        """How often each copy was dealt: the present deal follows from that."""
        return self._episodes.copy()

    def restore(self, dealt: np.ndarray) -> None:
        """The deal that was."""
        self._episodes[:] = dealt - 1
        self.anew(list(range(len(dealt))))

    def owned(self, policy: str) -> np.ndarray:
        """bool `[num_envs * agents of its group]`: what the policy plays now."""
        return (self._dealt[self._home[policy]] == policy).reshape(-1)
