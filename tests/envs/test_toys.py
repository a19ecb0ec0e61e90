"""Toy environments: they conform, and their stated optimum is what a perfect player earns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shoal.api.env import Array, Env, Step
from shoal.api.experiment import EnvConfig
from shoal.base.errors import ShoalError
from shoal.envs import make_env
from shoal.envs.registry import ENVS
from shoal.envs.toys.signal import Signal
from shoal.envs.toys.single_agent import Chain, Cut, Masked, Recall, Target
from shoal.testing.env import check_env
from shoal.testing.sampler import ActionSampler

TOYS = [env_id for env_id, target in ENVS.items() if target.startswith("shoal.envs.toys.")]
Player = Callable[[Step], dict[str, Array]]


def returns_of(env: Env, player: Player, steps: int = 60) -> list[float]:
    step, returns = env.reset(1), []
    for _ in range(steps):
        step = env.step(player(step))
        returns += [float(next(iter(episode.returns.values()))[0]) for episode in step.episodes]
    return returns


def agent(function: Callable[[Any], Array]) -> Player:
    return lambda step: {"agent": function(step.turns["agent"])}


@pytest.mark.parametrize("autoreset", ["same", "next"])
@pytest.mark.parametrize("env_id", TOYS)
def test_toys_conform(env_id: str, autoreset: str) -> None:
    config = EnvConfig(id=env_id, kwargs={"autoreset": autoreset})
    checks = check_env(lambda copies: make_env(config, copies), steps=60)
    assert [check for check in checks if not check.passed] == []
    assert not any("no snapshots" in check.detail or "no episode ended" in check.detail for check in checks)


@pytest.mark.parametrize("env_id", ["shoal/recall", "shoal/target", "shoal/masked", "shoal/signal"])
def test_chance_follows_the_slot(env_id: str) -> None:
    def life(copies: int, first_slot: int) -> list[Array]:
        env = make_env(EnvConfig(id=env_id), copies, first_slot=first_slot)
        step = env.reset(2)
        seen = []
        for _ in range(12):
            turns = step.turns.values()
            masks = [turn.action_mask for turn in turns if turn.action_mask is not None]
            seen.append(
                np.concatenate([part.reshape(copies, -1) for part in [*(t.observation for t in turns), *masks]], axis=1)
            )
            step = env.step(_first_allowed(env, step))
        return seen

    for whole, left, right in zip(life(16, 0), life(8, 0), life(8, 8), strict=True):
        assert np.array_equal(whole, np.concatenate([left, right]))
    assert any(len({row.tobytes() for row in whole}) > 1 for whole in life(16, 0))


def _first_allowed(env: Env, step: Step) -> dict[str, Array]:
    actions = {}
    for name, group in env.groups.items():
        mask = step.turns[name].action_mask
        shape = (env.num_envs, 1, *(group.action_space.shape or ()))
        actions[name] = np.zeros(shape, group.action_space.dtype) if mask is None else mask.argmax(axis=-1)
    return actions


def test_chain_pays_for_walking_to_the_end() -> None:
    env = Chain(2, length=4)
    assert set(returns_of(env, agent(lambda turn: np.ones((2, 1), np.int64)))) == {env.best_return}
    assert set(returns_of(env, agent(lambda turn: np.zeros((2, 1), np.int64)))) == {0.1}


def test_chain_ends_by_termination_alone() -> None:
    env = Chain(1, length=3)
    env.reset(0)
    steps = [env.step({"agent": np.ones((1, 1), np.int64)}).turns["agent"] for _ in range(3)]
    assert [bool(turn.terminated.any()) for turn in steps] == [False, False, True]
    assert not any(turn.truncated.any() for turn in steps)
    assert steps[-1].final_observation.tolist() == [[3]]
    assert steps[-1].observation.tolist() == [[0]]


@pytest.mark.parametrize("autoreset", ["same", "next"])
def test_cut_is_truncated_and_never_terminated(autoreset: Any) -> None:
    env = Cut(1, length=4, autoreset=autoreset)
    env.reset(0)
    steps = [env.step({"agent": np.zeros((1, 1), np.int64)}) for _ in range(6)]
    turns = [step.turns["agent"] for step in steps]
    assert not any(turn.terminated.any() for turn in turns)
    assert [bool(turn.truncated.any()) for turn in turns] == [False, False, False, True, False, False]
    last = turns[3].final_observation if autoreset == "same" else turns[3].observation
    assert last.tolist() == [[[1.0]]]
    assert [float(turn.reward[0, 0]) for turn in turns] == [1, 1, 1, 1, 1 if autoreset == "same" else 0, 1]
    assert [step.advanced for step in steps] == [1, 1, 1, 1, 1 if autoreset == "same" else 0, 1]
    assert [episode.returns["agent"].tolist() for episode in steps[3].episodes] == [[env.best_return]]


def test_recall_rewards_memory_and_only_memory() -> None:
    env = Recall(64, cues=3, delay=2)
    memory = np.zeros(64, np.int64)

    def remember(turn: Any) -> Array:
        cue = turn.observation[:, 0, :3]
        memory[cue.any(axis=1)] = cue[cue.any(axis=1)].argmax(axis=1)
        return memory[:, None]

    assert set(returns_of(env, agent(remember))) == {env.best_return}
    assert np.mean(returns_of(env, agent(lambda turn: np.ones((64, 1), np.int64)))) == pytest.approx(1 / 3, abs=0.06)


def test_recall_shows_the_cue_once() -> None:
    env = Recall(1, cues=2, delay=2)
    seen = [env.reset(0).turns["agent"].observation[0, 0]]
    seen += [env.step({"agent": np.zeros((1, 1), np.int64)}).turns["agent"].observation[0, 0] for _ in range(2)]
    assert seen[0].sum() == 1
    assert [part.tolist() for part in seen[1:]] == [[0, 0, 0], [0, 0, 1]]


def test_target_pays_for_saying_what_is_shown() -> None:
    env = Target(4, size=2)
    assert set(returns_of(env, agent(lambda turn: turn.observation))) == {env.best_return}
    assert max(returns_of(env, agent(lambda turn: turn.observation + 0.5))) < -0.5


def test_target_clips_what_lies_beyond() -> None:
    inside, beyond = Target(4), Target(4)
    low = returns_of(inside, agent(lambda turn: np.ones((4, 1, 1), np.float32)))
    assert returns_of(beyond, agent(lambda turn: np.full((4, 1, 1), 9.0, np.float32))) == low


def test_masked_takes_the_allowed_action_and_no_other() -> None:
    env = Masked(3, first_slot=5)
    assert set(returns_of(env, agent(lambda turn: turn.action_mask.argmax(axis=-1)))) == {env.best_return}
    with pytest.raises(ShoalError, match="shoal/masked, copy 5: action"):
        env.step({"agent": (env.reset(0).turns["agent"].action_mask.argmax(axis=-1) + 1) % 4})


@pytest.mark.parametrize("together", [False, True])
def test_signal_pays_for_a_shared_code(together: bool) -> None:
    env = Signal(32, cues=3, rounds=2, together=together)

    def talk(step: Step) -> dict[str, Array]:
        return {name: turn.observation.argmax(axis=-1) for name, turn in step.turns.items()}

    def mumble(step: Step) -> dict[str, Array]:
        return {**talk(step), "speaker": np.zeros((32, 1), np.int64)}

    assert set(returns_of(env, talk)) == {env.best_return}
    assert np.mean(returns_of(env, mumble)) == pytest.approx(2 / 3, abs=0.15)


def test_signal_takes_turns() -> None:
    env = Signal(2)
    step = env.reset(0)
    sampler = ActionSampler(env.groups, 2, 0)
    for time in range(4):
        assert step.turns["speaker"].acting.all() == (time % 2 == 0)
        assert step.turns["listener"].acting.all() == (time % 2 == 1)
        step = env.step(sampler.sample(step))


def test_a_snapshot_is_not_touched_by_what_follows() -> None:
    env = Target(2)
    env.reset(0)
    tree = env.snapshot()
    before = tree["arrays"]["targets"].copy(), tree["time"].copy()
    for _ in range(20):
        env.step({"agent": np.zeros((2, 1, 1), np.float32)})
    assert np.array_equal(tree["arrays"]["targets"], before[0])
    assert np.array_equal(tree["time"], before[1])
