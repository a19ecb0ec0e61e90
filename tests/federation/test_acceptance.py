"""Evaluate before accepting: what counts as worse, and that the same weights never do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.experiment import Experiment
from shoal.api.federation import AcceptanceConfig
from shoal.federation.acceptance import Examiner, significantly_worse
from shoal.program.expand import expand
from shoal.rollout.plans import Plans
from shoal.workers.parent_link import statistics, trained


@settings(deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=50))
def test_nothing_is_worse_than_itself(returns: list[float]) -> None:
    assert not significantly_worse(returns, returns, 2.0)


def test_worse_is_by_standard_errors() -> None:
    random = np.random.default_rng(1)
    wrong = sum(
        significantly_worse(list(random.normal(0, 1, 20)), list(random.normal(0, 1, 20)), 2.0) for _ in range(2000)
    )
    assert wrong / 2000 == pytest.approx(0.025, abs=0.015), "honest children are set aside now and then"
    found = sum(
        significantly_worse(list(random.normal(-2, 1, 20)), list(random.normal(0, 1, 20)), 2.0) for _ in range(200)
    )
    assert found >= 199
    assert significantly_worse([9.0] * 5, [500.0] * 5, 2.0), "where nothing varies"
    assert not significantly_worse([500.0] * 5, [9.0] * 5, 2.0), "better is not worse"


def verdict(examiner: Examiner) -> bool:
    while (found := examiner.step()) is None:
        continue
    return found


def test_candidates_are_played_on_the_same_seeds() -> None:
    experiment = Experiment.parse({
        "env": {"id": "CartPole-v1", "num_envs": 2}, "model": {"name": "mlp", "hidden": [8]},
        "algorithm": {"name": "ppo", "normalise_observations": True},
    })  # fmt: skip
    program = expand(experiment)
    algorithm = Plans(program)["agent"].algorithm
    present = (torch.cat(trained(algorithm)).numpy(), statistics(algorithm))
    beats: list[int] = []
    examiner = Examiner(program, "agent", AcceptanceConfig(episodes=4), lambda: beats.append(1))
    try:
        examiner.examine(0, present, present)
        assert verdict(examiner)
        assert examiner._returns["candidate"] == examiner._returns["present"]
        before = len(beats)
        examiner.examine(0, present, present)
        assert verdict(examiner)
        assert len(beats) - before <= before / 2, "the present weights are scored once"
        assert not examiner.busy
    finally:
        examiner.close()
