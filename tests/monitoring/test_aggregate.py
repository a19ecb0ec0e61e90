import json
import math
from typing import Any

import numpy as np
import pytest

from shoal.api.env import Episode
from shoal.api.metric import Largest, Last, Mean, Metric, Total
from shoal.monitoring.aggregate import Aggregator


def episode(*returns: float, length: int = 10, **metrics: float) -> Episode:
    return Episode(0, length, {"agent": np.array(returns, np.float32)}, metrics)


def singles(*returns: float) -> list[Episode]:
    return [episode(value) for value in returns]


def test_metrics_are_reduced_by_their_kind_and_reset_by_the_row() -> None:
    aggregator = Aggregator()
    first: dict[str, Metric] = {"a": Mean(1.0, 1), "b": Total(2), "c": Last(3), "d": Largest(4)}
    second: dict[str, Metric] = {"a": Mean(4.0, 3), "b": Total(5), "c": Last(1), "d": Largest(2)}
    aggregator.add(first)
    aggregator.add(second)
    row = aggregator.row(2048, 1, {"time/fps": 9.0, "c": 8.0})
    assert row == {
        "step": 2048, "update": 1, "rollout/episodes": 0, "a": 3.25, "b": 7, "c": 8.0, "d": 4, "time/fps": 9.0,
    }  # fmt: skip
    assert first["a"] == Mean(1.0, 1), "what was said is not changed"
    assert aggregator.row(4096, 2) == {"step": 4096, "update": 2, "rollout/episodes": 0}


def test_episode_means_are_over_the_last_hundred() -> None:
    aggregator = Aggregator()
    aggregator.add({}, singles(*[1000.0] * 50))
    aggregator.add({}, singles(*range(100)))
    row = aggregator.row(1, 1)
    assert row["rollout/ep_rew_mean"] == pytest.approx(49.5)
    assert row["rollout/ep_len_mean"] == 10
    assert row["rollout/episodes"] == 150
    assert aggregator.row(2, 2)["rollout/ep_rew_mean"] == pytest.approx(49.5), "the window outlives the row"


def test_a_single_agent_has_no_group_rows() -> None:
    aggregator = Aggregator()
    aggregator.add({}, singles(3.0))
    assert set(aggregator.row(1, 1)) == {
        "step", "update", "rollout/episodes", "rollout/ep_rew_mean", "rollout/ep_len_mean",
    }  # fmt: skip


@pytest.mark.parametrize(("scale", "game"), [("sum", 9.0), ("mean", 3.0)])
def test_every_scale_has_a_name_of_its_own(scale: Any, game: float) -> None:
    aggregator = Aggregator(game_return=scale)
    returns = {"speaker": np.array([1.0]), "listener": np.array([2.0, 6.0])}
    aggregator.add({}, [Episode(0, 25, returns)])
    row = aggregator.row(1, 1)
    assert row["rollout/ep_rew_mean"] == 9.0
    assert row["rollout/team_return"] == 9.0
    assert row["rollout/agent_return"] == 3.0
    assert row["rollout/game_return"] == game
    assert row["rollout/speaker/agent_return"] == 1.0
    assert row["rollout/listener/agent_return"] == 4.0


def test_the_return_that_rules_is_that_of_those_who_learn() -> None:
    aggregator = Aggregator(["learner"])
    played = {"learner": np.array([2.0]), "rival": np.array([-2.0])}
    aggregator.add({}, [Episode(0, 9, {"players": np.array([-2.0, 2.0])}, played=played)])
    row = aggregator.row(1, 1)
    assert row["rollout/ep_rew_mean"] == 2.0
    assert row["rollout/team_return"] == 0.0
    assert row["rollout/rival/agent_return"] == -2.0
    assert aggregator.recent_return(1) == 2.0


def test_episode_metrics_are_averaged_over_those_that_have_them() -> None:
    aggregator = Aggregator()
    aggregator.add({}, [episode(1.0, won=1.0), episode(1.0, won=0.0, fuel=5.0), episode(1.0)])
    row = aggregator.row(1, 1)
    assert row["rollout/metrics/won"] == 0.5
    assert row["rollout/metrics/fuel"] == 5.0


def test_recent_return_waits_for_enough_and_forgets() -> None:
    aggregator = Aggregator()
    aggregator.add({}, singles(*range(19)))
    assert aggregator.recent_return() is None
    aggregator.add({}, singles(100.0, 100.0))
    assert aggregator.recent_return() == pytest.approx((sum(range(1, 19)) + 200) / 20)
    assert aggregator.recent_return(2) == 100.0
    aggregator.forget_recent()
    assert aggregator.recent_return(1) is None
    assert "rollout/ep_rew_mean" in aggregator.row(1, 1), "only the recent window is forgotten"


def test_a_restored_aggregator_goes_on_as_the_unbroken_one() -> None:
    unbroken, restored = Aggregator(), Aggregator()
    unbroken.add({}, [episode(i, i + 1.0, length=i, won=i % 2) for i in range(130)])
    restored.load_state_dict(json.loads(json.dumps(unbroken.state_dict())))
    for aggregator in (unbroken, restored):
        aggregator.add({}, singles(*range(15)))
    assert restored.row(1, 1) == unbroken.row(1, 1)
    assert restored.recent_return() == unbroken.recent_return()


def test_a_broken_return_is_shown_not_hidden() -> None:
    aggregator = Aggregator()
    aggregator.add({}, singles(1.0, math.nan))
    assert math.isnan(float(aggregator.row(1, 1)["rollout/ep_rew_mean"]))
