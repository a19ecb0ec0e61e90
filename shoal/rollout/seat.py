"""A seat: one policy's place in one Env. Its lanes, their memory, their share of randomness, and, in training, their builder."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.api.env import Array, Turn
from shoal.base.seeding import Noise
from shoal.base.tree import Tree, tree_map
from shoal.rollout.trajectory import TrajectoryBuilder, View
from shoal.streams.inference import Answer, Ask, InferenceClient


class Seat:
    """Lays the agents of one group out as lanes `[num_envs * agents]`, asks for decisions, remembers recurrent state."""

    def __init__(
        self, group: str, client: InferenceClient, noise: Noise, state: Tree | None, builder: TrajectoryBuilder | None = None,
        *, decisions: int = 0,
    ) -> None:  # fmt: skip
        self.group, self.client, self.builder = group, client, builder
        self._noise, self._state = noise, state
        self._first = builder.first if builder else np.ones(len(noise.lanes), np.bool_)
        self._view: View | None = None
        self._decisions = decisions
        self._pinned = -1

    def ready(self) -> bool:
        """There is a slot to write into and the version of this round to act with."""
        if self.builder is None:
            return True
        if self._pinned == self.builder.posted:
            return True
        # Slot first: it is freed after the version of this round is published, so waiting for it is waiting for both.
        if not (self.builder.begin(self._state) and self.client.pin(self.builder.posted)):
            return False
        self._pinned = self.builder.posted
        return True

    def ask(self) -> None:
        """Send what the lanes see."""
        view = self._seen()
        noise = self._noise.at(self._decisions)
        self.client.ask(Ask(view.observation, self._first, noise, self._state, view.action_mask))

    def take(self, answer: Answer) -> Array:
        """Note the decision; the actions, by lane."""
        view = self._seen()
        if self.builder is not None:
            self.builder.decide(view, answer, self._state)
        else:
            self._first &= ~view.acting
        if self._state is not None:
            self._remember(answer.state, view.acting)
        self._decisions += 1
        return answer.action

    def see(self, turn: Turn, steps: int) -> bool:
        """Take in the outcome; True: a fragment was posted."""
        self._view = view = as_lanes(turn)
        if self.builder is not None:
            return self.builder.observe(view, steps)
        self._first |= view.terminated | view.truncated
        return False

    def start(self, turn: Turn) -> None:
        """The first view, after a reset."""
        self._view = as_lanes(turn)
        self._first[:] = True

    def _seen(self) -> View:
        assert self._view is not None, "start comes first"
        return self._view

    def _remember(self, state: Tree, acting: np.ndarray) -> None:
        everyone = np.count_nonzero(acting) == len(acting)

        def put(array: np.ndarray, values: np.ndarray) -> None:
            array[...] = values if everyone else np.where(acting.reshape(-1, *[1] * (values.ndim - 1)), values, array)

        tree_map(put, self._state, state)


def as_lanes(turn: Turn) -> View:
    """`[rows, agents, ...]` -> `[rows * agents, ...]`, without a copy."""

    def lanes(array: Any) -> Any:
        return array.reshape(-1, *array.shape[2:])

    mask, final = turn.action_mask, turn.final_observation
    return View(
        tree_map(lanes, turn.observation),
        turn.reward.reshape(-1),
        turn.terminated.reshape(-1),
        turn.truncated.reshape(-1),
        turn.acting.reshape(-1),
        None if mask is None else lanes(mask),
        None if final is None else tree_map(lanes, final),
    )
