"""Who plays whom, dealt anew in each episode: an order of policies for the agents of each group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from shoal.base.seeding import generator

Order = Callable[[int, int], dict[str, Sequence[str]]]
"""Env copy, counted over the run, and its episode -> group -> the policy of each of its agents."""


def shuffled(cast: dict[str, list[str]], *, seed: int) -> Order:
    """The agents of a group in a new order for the policies that play them."""

    def order(slot: int, episode: int) -> dict[str, Sequence[str]]:
        random = generator(seed, "deal", slot, episode)
        return {group: random.permutation(np.array(policies)).tolist() for group, policies in cast.items()}

    return order


class Deal:
    """The present deal of some env copies. `matches`: in a league, what is being played in a copy, counted over the run."""

    def __init__(
        self, order: Order, num_envs: int, *, first_slot: int, matches: Callable[[int], list[int]] | None = None
    ) -> None:
        self._order, self._first_slot, self._matches = order, first_slot, matches
        self._episodes = np.zeros(num_envs, np.int64)
        sizes = {group: len(policies) for group, policies in order(first_slot, 0).items()}
        self._dealt = {group: np.empty((num_envs, size), object) for group, size in sizes.items()}
        self.anew(list(range(num_envs)))

    def anew(self, rows: list[int]) -> None:
        """New episodes begin in these copies."""
        for row in rows:
            for group, policies in self._order(self._first_slot + row, int(self._episodes[row])).items():
                self._dealt[group][row] = policies
            self._episodes[row] += 1

    def snapshot(self) -> np.ndarray:
        """How often each copy was dealt: the present deal follows from that."""
        return self._episodes.copy()

    def restore(self, dealt: np.ndarray) -> None:
        """The deal that was."""
        self._episodes[:] = dealt - 1
        self.anew(list(range(len(dealt))))

    def owned(self, policy: str, group: str, columns: list[int] | None = None) -> np.ndarray:
        """bool `[num_envs * agents]`: what the policy plays now, of a group or of some of its columns."""
        dealt = self._dealt[group] if columns is None else self._dealt[group][:, columns]
        return (dealt == policy).reshape(-1)

    def match(self, row: int) -> list[int]:
        """See `Episode.match`."""
        return [] if self._matches is None else self._matches(self._first_slot + row)

    def players(self, row: int) -> tuple[str, ...]:
        """Who plays in a copy now, agent by agent."""
        return tuple(policy for dealt in self._dealt.values() for policy in dealt[row])
