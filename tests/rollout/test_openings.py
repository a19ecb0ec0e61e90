"""Openings: the first steps of every episode at random, the others as the policies decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from shoal.api.env import Array, Episode, Step
from shoal.api.experiment import EnvConfig
from shoal.api.policy import Decision, Request
from shoal.base.seeding import Noise
from shoal.envs import make_env
from shoal.rollout.openings import Openings
from shoal.rollout.players import FixedInference, ScriptedPolicy
from shoal.rollout.rollout import Progress, Rollout, Watcher, run_one
from shoal.rollout.seat import Seat
from shoal.streams.inference import Answer

COPIES, PLIES = 64, 3


class Notes(Watcher):
    """What was done in every step in which somebody acted, by copy and episode."""

    def __init__(self, group: str) -> None:
        self._group = group
        self.done: list[list[list[Array]]] = [[[]] for _ in range(COPIES)]

    def start(self, step: Step) -> None:
        self._acting = step.turns[self._group].acting.copy()

    def act(self, actions: dict[str, Array], answers: dict[Seat, Answer]) -> None:
        for row in np.flatnonzero(self._acting.any(1)):
            self.done[row][-1].append(actions[self._group][row][self._acting[row]].copy())

    def see(self, step: Step, episodes: list[Episode]) -> None:
        self._acting = step.turns[self._group].acting.copy()
        for episode in episodes:
            self.done[episode.row].append([])


class Always(ScriptedPolicy):
    """One action, whether it is allowed or not."""

    def act(self, request: Request, *, explore: bool) -> Decision:
        action = self._script({}, None, request.noise.numpy())
        return Decision(torch.as_tensor(np.repeat(np.asarray(action)[None], len(request.noise), 0)), {}, None)


def play(env_id: str, always: Any, steps: int, number: Any) -> list[list[list[Array]]]:
    env = make_env(EnvConfig(id=env_id), COPIES)
    ((group, agents),) = env.groups.items()
    lanes = COPIES * len(agents.agents)
    rule = Always(lambda observation, mask, noise: np.asarray(always), agents.action_space, "rule")
    seat = Seat(group, group, FixedInference(rule, explore=True), Noise(1, "x", np.arange(lanes), 8), None)
    notes = Notes(group)
    openings = Openings(env, PLIES, number, seed=5)
    rollout = Rollout(env, [seat], seed=1, watcher=notes, openings=openings)
    for _ in range(steps):
        run_one(rollout, Progress())
    env.close()
    return [[episode for episode in own[:-1] if episode] for own in notes.done]


@pytest.mark.parametrize(
    ("env_id", "always", "steps"), [("CartPole-v1", 1, 60), ("shoal/connect-four", 6, 60), ("Pendulum-v1", [7.0], 410)]
)
def test_only_the_first_steps_are_drawn(env_id: str, always: Any, steps: int) -> None:
    played = play(env_id, always, steps, lambda row, episode: COPIES * episode + row)
    assert all(len(own) >= 2 for own in played)
    drawn = [np.stack(episode[:PLIES]) for own in played for episode in own]
    decided = [np.stack(episode[PLIES:]) for own in played for episode in own if len(episode) > PLIES]
    assert all((actions == always).all() for actions in decided)
    assert len({actions.tobytes() for actions in drawn}) > 6
    for ply in range(PLIES):
        assert np.mean([(actions[ply] == always).all() for actions in drawn]) < 0.7


def test_an_opening_follows_from_its_number() -> None:
    played = play("shoal/connect-four", 6, 60, lambda row, episode: row // 2)
    for row in range(0, COPIES, 2):
        one, two = played[row][0], played[row + 1][0]
        assert np.array_equal(np.stack(one[:PLIES]), np.stack(two[:PLIES]))
        assert np.array_equal(np.stack(one[:PLIES]), np.stack(played[row][1][:PLIES])), "in the next episode too"
    assert len({np.stack(own[0][:PLIES]).tobytes() for own in played}) > 20
