"""Openings: the first steps of an episode at random, so that players who never draw do not play one game again and again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoal.api.env import Array, Env, Step
from shoal.base.seeding import generator
from shoal.rollout.players import RandomPolicy
from shoal.streams.inference import Ask, decide


class Openings:
    """In the first `plies` steps of an episode everyone who acts does so at random, among what is allowed.

    An opening follows from its number alone: `number` gives that of an env copy's episode, so that two of them may share one.
    """

    def __init__(self, env: Env, plies: int, number: Callable[[int, int], int], *, seed: int) -> None:
        self._plies, self._number, self._seed = plies, number, seed
        self._random = {name: RandomPolicy(group) for name, group in env.groups.items()}
        self._episodes, self._played = (np.zeros(env.num_envs, np.int64) for _ in range(2))
        self._step: Step | None = None

    def see(self, step: Step) -> None:
        """What the next actions are for; that of `reset` first."""
        self._step = step
        for episode in step.episodes:
            self._episodes[episode.row] += 1
            self._played[episode.row] = 0

    def play(self, actions: dict[str, Array]) -> dict[str, Array]:
        """`[num_envs, agents, ...]` of each group: those of the policies, or in an opening others in their place."""
        assert self._step is not None, "see comes first"
        turns = self._step.turns
        acts = np.logical_or.reduce([turn.acting.any(1) for turn in turns.values()])  # idle calls are no steps
        rows = np.flatnonzero(acts & (self._played < self._plies))
        if not rows.size:
            return actions
        played = {}
        for group, decided in actions.items():
            mask, played[group] = turns[group].action_mask, decided.copy()
            played[group][rows] = self._drawn(group, rows, decided[rows], None if mask is None else mask[rows])
        self._played[rows] += 1
        return played

    def _drawn(self, group: str, rows: Array, like: Array, mask: Array | None) -> Array:
        """Actions of these copies, shaped `like` those that policies decided."""
        policy, agents = self._random[group], like.shape[1]
        noise = np.stack([self._noise(group, row, (agents, policy.noise_size)) for row in rows.tolist()])
        lanes = len(rows) * agents
        flat = None if mask is None else mask.reshape(lanes, *mask.shape[2:])
        request = Ask(np.zeros(lanes), np.zeros(lanes, np.bool_), noise.reshape(lanes, -1), None, flat)
        return decide(policy, request, explore=True, version=0).action.reshape(like.shape).astype(like.dtype)

    def _noise(self, group: str, row: int, shape: tuple[int, int]) -> Array:
        number, ply = self._number(row, int(self._episodes[row])), int(self._played[row])
        return generator(self._seed, f"opening of {group}", number, ply).random(shape, np.float32)
