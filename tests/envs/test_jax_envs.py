"""Environments written in JAX: what they promise as an Env, and which of their ends are time limits."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.api.env import Env
from shoal.api.experiment import EnvConfig
from shoal.envs import make_env
from shoal.testing.check import require
from shoal.testing.env import check_env
from shoal.testing.recording import play
from shoal.testing.sampler import ActionSampler


def made(env_id: str, copies: int, **kwargs: Any) -> Env:
    package = env_id.partition("/")[0]
    pytest.importorskip(package, reason=f"the {package} extra is not installed")
    return make_env(EnvConfig(id=env_id, kwargs=kwargs), copies)


@pytest.mark.parametrize("name", ["jaxmarl/MPE_simple_spread_v3", "pgx/tic_tac_toe"])
def test_it_conforms(name: str) -> None:
    made(name, 1)
    require(check_env(lambda copies: made(name, copies), steps=30))


def test_a_time_limit_is_a_truncation() -> None:
    env = made("jaxmarl/MPE_simple_spread_v3", 2, max_steps=4)
    recording = play(env, lambda: env.reset(5), ActionSampler(env.groups, 2, 0), 12)
    assert recording.error is None
    ends = [step for step in recording.steps if step.episodes]
    assert ends
    for step in ends:
        turn = step.turns["agent"]
        assert turn.truncated.all()
        assert not turn.terminated.any()
        assert (turn.final_observation != turn.observation).any()
    assert env.game_return == "mean"
