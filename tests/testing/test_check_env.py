"""The conformance suite finds what is broken, and blames the right promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from shoal.api.env import AgentGroup, Array, Env, Episode, Step, Turn
from shoal.envs.toys.single_agent import Cut, Masked, Target
from shoal.testing.check import Check
from shoal.testing.env import RUNS, check_env


def failures(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.detail for check in checks if not check.passed}


# ---------------------------------------------------------------- batches that break a promise


class Spoilt(Env):
    """A sound environment whose answers are spoilt on their way out."""

    def __init__(self, inner: Env, spoil: Callable[[Step], Step]) -> None:
        self._inner, self._spoil = inner, spoil
        self.groups, self.num_envs = inner.groups, inner.num_envs

    def reset(self, seed: int) -> Step:
        return self._spoil(self._inner.reset(seed))

    def send(self, actions: dict[str, Array]) -> None:
        self._inner.send(actions)

    def recv(self, timeout: float) -> Step:
        return self._spoil(self._inner.recv(timeout))


def on_turn(**changes: Callable[[Turn], Any]) -> Callable[[Step], Step]:
    def spoil(step: Step) -> Step:
        for turn in step.turns.values():
            for field, change in changes.items():
                setattr(turn, field, change(turn))
        return step

    return spoil


def on_step(**changes: Callable[[Step], Any]) -> Callable[[Step], Step]:
    return lambda step: replace(step, **{field: change(step) for field, change in changes.items()})


def on_episodes(change: Callable[[Episode], Episode]) -> Callable[[Step], Step]:
    return on_step(episodes=lambda step: [change(episode) for episode in step.episodes])


SHAPES = "arrays have the declared shapes and dtypes"
FLAGS = "terminated truncated and acting are bools"
INSIDE = "observations lie in their spaces"
MASKS = "action masks are bool and allow an action"
ENDS = "an end shows the last observation"
BOOKS = "episodes record the rewards that were seen"
IDLE = "idle calls are no steps"
GROUPS = "every answer speaks of all groups"
STATE = "the state comes always or never"

SPOILT = {
    "observation of doubles": (on_turn(observation=lambda t: t.observation.astype(np.float64)), SHAPES),
    "observation without agents": (on_turn(observation=lambda t: t.observation[:, 0]), SHAPES),
    "observation in a dict": (on_turn(observation=lambda t: {"x": t.observation}), SHAPES),
    "reward of doubles": (on_turn(reward=lambda t: t.reward.astype(np.float64)), SHAPES),
    "flags of numbers": (on_turn(truncated=lambda t: t.truncated.astype(np.int8)), FLAGS),
    "observation out of bounds": (on_turn(observation=lambda t: t.observation + np.float32(2)), INSIDE),
    "observation not finite": (on_turn(observation=lambda t: t.observation * np.float32("nan")), INSIDE),
    "final observation out of bounds": (
        on_turn(final_observation=lambda t: t.final_observation + np.float32(1) if t.truncated.any() else None), INSIDE,
    ),
    "reward not finite": (on_turn(reward=lambda t: t.reward * np.float32("nan")), "rewards are finite"),
    "final observation lost": (on_turn(final_observation=lambda t: None), ENDS),
    "mask of numbers": (on_turn(action_mask=lambda t: np.ones((*t.acting.shape, 2), np.int8)), MASKS),
    "mask of another size": (on_turn(action_mask=lambda t: np.ones((*t.acting.shape, 3), bool)), MASKS),
    "mask that forbids all": (on_turn(action_mask=lambda t: np.zeros((*t.acting.shape, 2), bool)), MASKS),
    "mask now and then": (
        on_turn(action_mask=lambda t: np.ones((*t.acting.shape, 2), bool) if t.truncated.any() else None), MASKS,
    ),
    "episodes lost": (on_step(episodes=lambda step: []), BOOKS),
    "episodes twice": (on_step(episodes=lambda step: step.episodes * 2), BOOKS),
    "episodes too long": (on_episodes(lambda episode: replace(episode, length=episode.length + 1)), BOOKS),
    "returns discounted": (on_episodes(lambda e: replace(e, returns={"agent": e.returns["agent"] * 0.9})), BOOKS),
    "steps not counted": (on_step(advanced=lambda step: 0), IDLE),
    "state now and then": (on_step(state=lambda step: np.zeros((3, 1)) if step.episodes else None), STATE),
    "state of another size": (on_step(state=lambda step: np.zeros((3, 1 + len(step.episodes)))), STATE),
    "state whose end is lost": (on_step(state=lambda step: np.zeros((3, 1)), final_state=lambda step: None), STATE),
    "a group too many": (on_step(turns=lambda step: {**step.turns, "ghost": step.turns["agent"]}), GROUPS),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_answer_fails_its_check(name: str) -> None:
    spoil, broken = SPOILT[name]
    found = failures(check_env(lambda copies: Spoilt(Cut(copies), spoil), steps=20))
    assert broken in found
    assert ": " in found[broken]


@pytest.mark.parametrize(
    "name", ["reward of doubles", "final observation lost", "steps not counted", "returns discounted"]
)
def test_a_small_mistake_fails_nothing_else(name: str) -> None:
    spoil, broken = SPOILT[name]
    assert set(failures(check_env(lambda copies: Spoilt(Cut(copies), spoil), steps=20))) == {broken}


def test_a_sound_world_behind_the_same_wrapper_passes() -> None:
    assert failures(check_env(lambda copies: Spoilt(Cut(copies), lambda step: step), steps=20)) == {}


@pytest.mark.parametrize(
    ("spoil", "broken"),
    [
        (on_step(advanced=lambda step: step.turns["agent"].acting.shape[0] if step.advanced < 3 else 3), IDLE),
        (on_turn(reward=lambda t: np.ones_like(t.reward)), IDLE),
    ],
)
def test_idle_calls_that_count_are_found(spoil: Callable[[Step], Step], broken: str) -> None:
    assert broken in failures(check_env(lambda copies: Spoilt(Cut(copies, autoreset="next"), spoil), steps=20))


class Haunted(Cut):
    """Says once more, in the idle call, who ended before it."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs, autoreset="next")
        self._ended = np.zeros((num_envs, 1), bool)

    def recv(self, timeout: float) -> Step:
        step = super().recv(timeout)
        turn = step.turns["agent"]
        self._ended, turn.truncated = turn.truncated.copy(), turn.truncated | self._ended
        return step


def test_an_end_that_is_flagged_twice_is_found() -> None:
    found = failures(check_env(lambda copies: Haunted(copies), steps=20))
    assert "'agent' of copy 0 ends once more" in found["an agent ends once"]


def test_an_episode_that_ends_while_somebody_plays_is_found() -> None:
    early = Episode(0, 1, {"agent": np.ones(1)})
    spoil = on_step(episodes=lambda step: step.episodes or [early])
    found = failures(check_env(lambda copies: Spoilt(Cut(copies), spoil), steps=20))
    assert "`episodes` speaks of [0]" in found[BOOKS]


def test_an_action_space_that_does_not_count_from_zero_is_found() -> None:
    def make(copies: int) -> Env:
        env = Cut(copies)
        group = env.groups["agent"]
        env.groups = {"agent": AgentGroup(group.agents, group.observation_space, Discrete(2, start=1))}
        return env

    assert "count from 0" in failures(check_env(make, steps=5))["spaces are supported"]


def test_a_wrong_number_of_copies_is_found() -> None:
    found = failures(check_env(lambda copies: Cut(2), steps=5))
    assert "1 copies were requested and num_envs is 2" in found[RUNS]


class Forgetful(Target):
    """A snapshot that leaves the targets out."""

    def snapshot(self) -> Any:
        tree = super().snapshot()
        return {**tree, "arrays": {"targets": np.zeros_like(tree["arrays"]["targets"])}}


class Pickled(Target):
    """A snapshot of objects."""

    def snapshot(self) -> Any:
        return {**super().snapshot(), "self": "me"}


@pytest.mark.parametrize(("kind", "text"), [(Forgetful, "goes on differently"), (Pickled, "holds a str at 'self'")])
def test_a_bad_snapshot_is_found(kind: type[Target], text: str) -> None:
    found = failures(check_env(lambda copies: kind(copies), steps=24))
    assert set(found) == {"snapshots continue identically"}
    assert text in found["snapshots continue identically"]


class Grey(Cut):
    """Images without colours."""

    def render(self, row: int) -> Array:
        return np.zeros((3, 3), np.uint8)


def test_a_picture_that_is_not_rgb_is_found() -> None:
    found = failures(check_env(lambda copies: Grey(copies), steps=5))
    assert list(found) == ["images are rgb or none"]
    assert "[height, width, 3]" in found["images are rgb or none"]


def test_masks_are_kept_by_the_player() -> None:
    assert failures(check_env(lambda copies: Masked(copies), steps=40)) == {}


def test_remarks_do_not_fail() -> None:
    remarks = {check.name: check.detail for check in check_env(lambda copies: Cut(copies), steps=3) if check.detail}
    assert "without chance" in remarks["different seeds differ"]
    assert "begin alike" in remarks["copies differ"]
    assert "no episode ended within 3 steps" in remarks[ENDS]
