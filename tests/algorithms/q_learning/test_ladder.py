"""A ladder of rates: the formula, who has which rate, and that nobody's rate ever changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shoal
from shoal.algorithms.q_learning.dqn import DQN, DQNConfig
from shoal.algorithms.q_learning.ladder import Ladder, LadderExplorer, rate_at, rates
from shoal.algorithms.q_learning.qmix import QMIX, QMIXConfig
from shoal.api.algorithm import Task
from shoal.api.experiment import Experiment
from shoal.api.policy import Request
from shoal.base.errors import InputError
from shoal.base.faults import VARIABLE
from shoal.program.expand import expand
from shoal.rollout.plans import Plans
from tests.algorithms.batches import GROUP, MLP
from tests.launchers.live import restarts


def experiment(**sections: Any) -> Experiment:
    tree: dict[str, Any] = {
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "algorithm": {"name": "dqn", "unroll": 4, "batch": 32, "warmup": 32, "updates": 2, "epsilon": {"base": 0.5, "alpha": 3}},
        "model": {"name": "mlp", "hidden": [16]},
        "stop": {"updates": 12},
        "placement": {},
        "log": {"tensorboard": False},
        "name": "ladder",
    }  # fmt: skip
    for name, values in sections.items():
        tree[name] = {**tree[name], **values}
    return Experiment.parse(tree)


def test_rates_are_those_of_the_paper() -> None:
    found = rates(Ladder(), np.arange(8), 8)
    slow = [0.4 ** (1 + i / (8 - 1) * 7) for i in range(8)]
    assert found.tolist() == pytest.approx(slow)
    assert rates(Ladder(base=0.3), np.arange(1), 1).tolist() == [0.3]
    assert rate_at(Ladder(), 0, None, 8) == pytest.approx(np.mean(slow))


@pytest.mark.parametrize("wrong", [{"base": 0.0}, {"base": 1.5}, {"bose": 0.4}])
def test_mistakes_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=r"algorithm.epsilon"):
        expand(experiment(algorithm={"epsilon": wrong}))


def make_explorer(name: str, lanes: list[int], **sections: Any) -> LadderExplorer:
    plan = Plans(expand(experiment(**sections)))[name]
    explorer = plan.algorithm.explorer(np.array(lanes))
    assert isinstance(explorer, LadderExplorer)
    return explorer


def test_a_lane_keeps_its_rate_however_lanes_are_split_over_actors() -> None:
    whole = make_explorer("agent", list(range(8))).begin(np.arange(8))
    assert len(np.unique(whole)) == 8
    for actors in (1, 2, 4):
        share = 8 // actors
        split = [
            make_explorer("agent", list(range(i * share, (i + 1) * share)), placement={"actors": actors}).begin(np.arange(share))
            for i in range(actors)
        ]  # fmt: skip
        assert np.array_equal(np.concatenate(split), whole)
    again = make_explorer("agent", [5, 6]).begin(np.array([1, 0]))
    assert again.tolist() == whole[[6, 5]].tolist()


def test_actors_that_come_and_go_leave_the_ladder_as_it_is() -> None:
    """A range of actors counts the lanes of the most of them from the start."""
    elastic = {"env": {"num_envs": 4}, "placement": {"actors": {"min": 2, "max": 4}, "envs_per_actor": 2, "max_lag": 1}}
    algorithm = Plans(expand(experiment(**elastic)))["agent"].algorithm
    assert isinstance(algorithm, DQN)
    assert algorithm.lanes == 8
    third = algorithm.explorer(np.array([4, 5]))
    assert third is not None
    assert third.begin(np.arange(2)).tolist() == make_explorer("agent", [4, 5]).begin(np.arange(2)).tolist()


def test_a_team_has_one_rate_for_all_its_agents() -> None:
    tree = experiment(env={"id": "shoal/two-step", "num_envs": 6}, algorithm={"name": "qmix", "unroll": 2})
    plan = Plans(expand(tree))["agent"]
    assert isinstance(plan.algorithm, QMIX)
    assert plan.algorithm.lanes == plan.spec.lanes == 6


# ---------------------------------------------------------------- acting


def test_the_knob_is_the_chance_and_greedy_play_has_none() -> None:
    algorithm = DQN(DQNConfig(unroll=6, batch=24, epsilon=Ladder()), MLP, Task(GROUP, 4, 1))
    assert algorithm.policy.knobs == ("epsilon",)
    rows = 30_000
    noise = torch.from_numpy(np.random.default_rng(0).random((rows, 2), np.float32))
    due = torch.tensor([0.8, 0.2, 0.0]).repeat(rows // 3)
    request = Request(
        torch.zeros(rows, 3), torch.ones(rows, dtype=torch.bool), noise, None, None, due.unsqueeze(-1)
    )  # fmt: skip
    with torch.no_grad():
        best = algorithm.policy.act(request, explore=False).action
        taken = algorithm.policy.act(request, explore=True).action
    assert len(best.unique()) == 1
    for place, rate in enumerate((0.8, 0.2, 0.0)):
        other = float((taken != best).view(-1, 3)[:, place].float().mean())
        assert other == pytest.approx(rate * 3 / 4, abs=0.015)


def test_returns_are_told_by_quarter() -> None:
    explorer = LadderExplorer(Ladder(), np.arange(8), 8)
    explorer.end(np.array([0, 1, 7]), np.array([2.0, 4.0, 9.0]))
    assert {name: metric.value for name, metric in explorer.metrics().items()} == {"ladder/1": 3.0, "ladder/4": 9.0}
    assert explorer.metrics() == {}


# ---------------------------------------------------------------- runs


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


WATCHED = {"name": "tests.algorithms.q_learning.watched_ladder:WatchedDQN"}


@pytest.mark.parametrize("placement", [{}, {"actors": 2}, {"actors": 2, "inference": "worker"}])
def test_rates_are_noted_row_by_row(tmp_path: Path, placement: dict[str, Any]) -> None:
    tree = experiment(algorithm=WATCHED, placement=placement)
    rows = written(shoal.train(tree, root=tmp_path, quiet=True, on="local").folder)
    seen = [row for row in rows if "train/rate_off" in row]
    assert len(seen) > 5
    assert max(row["train/rate_off"] for row in seen) < 1e-6
    assert max(row["train/rates_seen"] for row in seen) >= 5
    assert any("rollout/ladder/1" in row for row in rows)


def test_rates_do_not_shift_when_an_actor_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "actor-0@step=60:kill, actor-1@step=100:kill")
    tree = experiment(algorithm=WATCHED, placement={"actors": 2}, stop={"updates": 40})
    folder = shoal.train(tree, root=tmp_path, quiet=True, on="local").folder
    rows = written(folder)
    assert len(restarts(folder)) == 2
    seen = [row for row in rows if "train/rate_off" in row]
    assert len(seen) > 20
    assert max(row["train/rate_off"] for row in seen) < 1e-6


@pytest.mark.parametrize("algorithm", ["dqn", "qmix"])
def test_equal_bits_in_processes(tmp_path: Path, algorithm: str) -> None:
    from tests.algorithms.q_learning.test_q_learning import weights

    world = {"id": "shoal/two-step"} if algorithm == "qmix" else {}
    tree = experiment(algorithm={"name": algorithm}, env=world, placement={"actors": 2, "inference": "worker"})
    inline = shoal.train(tree, root=tmp_path / "inline", quiet=True, on="inline")
    local = shoal.train(tree, root=tmp_path / "local", quiet=True, on="local")
    one, two = weights(inline.folder), weights(local.folder)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert int(one["agent/updates"]) > 0


def test_a_ladder_is_a_setting_of_teams_too() -> None:
    assert isinstance(QMIXConfig(epsilon=Ladder()).epsilon, Ladder)
