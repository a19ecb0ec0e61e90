"""Gymnasium environments say what is allowed in `info`, in a Dict observation or by `action_masks()`: all three are honoured."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv

import shoal
from shoal.api.env import Env
from shoal.api.experiment import Experiment
from shoal.envs.gymnasium_loop import GymnasiumLoop
from shoal.envs.gymnasium_vector import GymnasiumVector
from shoal.envs.registry import AGENT

VIEW, MASK = Box(-9, 9, (2,)), Box(0, 1, (3,), np.int8)
LENGTH = 3


def allowed(count: int) -> np.ndarray:
    """Action `count` alone."""
    return (np.arange(3) == count).astype(np.int8)


class InInfo(gymnasium.Env[Any, Any]):
    """After n steps only action n is allowed: others are an error. It ends after `LENGTH`."""

    observation_space: Any = VIEW
    action_space: Any = Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self.seen(), self.told()

    def step(self, action: Any) -> Any:
        assert action == self.count, "it was not allowed"
        self.count += 1
        return self.seen(), 1.0, self.count == LENGTH, False, self.told()

    def seen(self) -> Any:
        return np.full(2, self.count, np.float32)

    def told(self) -> dict[str, Any]:
        return {"action_mask": allowed(self.count)}


class InObservation(InInfo):
    observation_space = Dict({"observation": VIEW, "action_mask": MASK})

    def seen(self) -> Any:
        return {"observation": super().seen(), "action_mask": allowed(self.count)}

    def told(self) -> dict[str, Any]:
        return {}


class BesideTwoParts(InObservation):
    observation_space = Dict({"a": VIEW, "action_mask": MASK, "b": VIEW})

    def seen(self) -> Any:
        view = InInfo.seen(self)
        return {"a": view, "action_mask": allowed(self.count), "b": view}


class ByMethod(InInfo):
    def told(self) -> dict[str, Any]:
        return {}

    def action_masks(self) -> np.ndarray:
        assert self.count < LENGTH, "after an end nothing can be chosen"
        return allowed(self.count).astype(bool)


class ManyInObservation(VectorEnv[Any, Any, Any]):
    """A batch of them."""

    kind: type[InInfo] = InObservation

    def __init__(self, num_envs: int) -> None:
        self.num_envs, self.envs = num_envs, [self.kind() for _ in range(num_envs)]
        self.single_observation_space, self.single_action_space = self.kind.observation_space, Discrete(3)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.stacked([env.reset()[0] for env in self.envs]), {}

    def step(self, actions: Any) -> Any:
        seen, reward, over, _, _ = zip(
            *(env.step(int(a)) for env, a in zip(self.envs, actions, strict=True)), strict=True
        )
        last = np.array([*seen, None], object)[:-1]
        now = [env.reset()[0] if done else each for env, each, done in zip(self.envs, seen, over, strict=True)]
        info = {"final_obs": last} if any(over) else {}
        return self.stacked(now), np.array(reward), np.array(over), np.zeros(self.num_envs, bool), info

    def stacked(self, seen: list[Any]) -> Any:
        return {key: np.stack([each[key] for each in seen]) for key in seen[0]}


class ManyByMethod(ManyInObservation):
    kind = ByMethod

    def stacked(self, seen: list[Any]) -> Any:
        return np.stack(seen)

    def action_masks(self) -> Any:
        return np.stack([env.action_masks() for env in self.envs if isinstance(env, ByMethod)])


MANY = {
    **{kind.__name__: kind for kind in (InInfo, InObservation, BesideTwoParts, ByMethod)},
    "ManyInObservation": ManyInObservation,
    "ManyByMethod": ManyByMethod,
}


def opened(name: str) -> Env:
    kind: Any = MANY[name]
    return GymnasiumVector(kind(2), "x") if name.startswith("Many") else GymnasiumLoop([kind(), kind()], "x")


@pytest.mark.parametrize("name", MANY)
def test_masks_come_with_every_step(name: str) -> None:
    env = opened(name)
    step = env.reset(1)
    for count in [0, 1, 2, 0, 1, 2, 0]:
        turn = step.turns[AGENT]
        assert turn.action_mask is not None
        assert (turn.action_mask == allowed(count).astype(bool)).all()
        env.send({AGENT: np.full((2, 1), count)})
        step = env.recv(1.0)


@pytest.mark.parametrize("name", MANY)
def test_a_mask_is_no_part_of_what_is_seen(name: str) -> None:
    env = opened(name)
    space, seen = env.groups[AGENT].observation_space, env.reset(1).turns[AGENT].observation
    if name == "BesideTwoParts":
        assert space == Dict({"a": VIEW, "b": VIEW})
        assert set(seen) == {"a", "b"}
    else:
        assert space == VIEW
        assert seen.shape == (2, 1, 2)
    for count in range(LENGTH):
        env.send({AGENT: np.full((2, 1), count)})
        turn = env.recv(1.0).turns[AGENT]
    final = turn.final_observation
    assert ((final["a"] if name == "BesideTwoParts" else final) == LENGTH).all()


@pytest.mark.parametrize("name", ["InObservation", "ByMethod"])
def test_policies_keep_to_it(name: str, tmp_path: Any) -> None:
    """The environment refuses everything else."""
    experiment = Experiment.parse({
        "env": {"id": f"tests.envs.test_gymnasium_masks:{name}", "num_envs": 2},
        "algorithm": {"unroll": 8}, "model": {"hidden": [4]}, "stop": {"updates": 2},
    })  # fmt: skip
    assert shoal.train(experiment, root=tmp_path, on="inline", quiet=True).version == 2
