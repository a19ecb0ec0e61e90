"""Threads of a trainer: asked for around learning and nowhere else, repeatable, and reserved on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from threadpoolctl import threadpool_info

from shoal.algorithms.actor_critic.policy import ActorCritic
from shoal.algorithms.actor_critic.ppo import PPO
from shoal.algorithms.q_learning.dqn import DQN
from shoal.api.experiment import Experiment
from shoal.base.errors import InputError
from shoal.base.threads import allow_blas, limit_blas, torch_threads
from shoal.checkpoints.store import CheckpointStore
from shoal.launchers.ray.cluster import fill_placement
from shoal.program.expand import expand
from shoal.program.report import plan_of
from shoal.runs.train import train
from tests.cli.test_cli import shoal
from tests.launchers.processes import nothing_left

WIDE = {"name": "mlp", "hidden": [256, 256]}


def experiment(**sections: Any) -> Experiment:
    """Wide enough that two threads share a product of matrices, and that which of them adds up is seen."""
    tree: dict[str, Any] = {
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "algorithm": {"name": "ppo", "unroll": 128, "minibatch": 512, "epochs": 2, "shared": True},
        "model": WIDE,
        "stop": {"updates": 2},
        "placement": {},
        "name": "threads",
    }
    return Experiment.parse({**tree, **sections})


def weights(tree: Experiment, root: Path, trial: str, on: str = "inline") -> dict[str, torch.Tensor]:
    folder = train(tree, root=root, trial=trial, on=on, quiet=True).folder
    return CheckpointStore(folder / "checkpoints", keep=9).latest().tensors


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(autouse=True)
def _one_thread_after() -> Iterator[None]:
    with nothing_left():
        yield
    assert torch.get_num_threads() == 1
    allow_blas(1)


# ---------------------------------------------------------------- who has how many


def test_learning_has_threads_and_acting_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, set[int]] = {"act": set(), "update": set()}
    for cls, name in ((ActorCritic, "act"), (PPO, "update")):
        original = getattr(cls, name)

        def spied(*args: Any, original: Any = original, name: str = name, **kwargs: Any) -> Any:
            seen[name].add(torch.get_num_threads())
            return original(*args, **kwargs)

        monkeypatch.setattr(cls, name, spied)
    weights(experiment(placement={"trainers": 1, "threads": 3}), tmp_path, "three")
    assert seen == {"act": {1}, "update": {3}}
    weights(experiment(), tmp_path, "auto")
    assert seen == {"act": {1}, "update": {1, 3}}


def test_an_error_leaves_the_threads_of_the_program_around() -> None:
    seen: list[int] = []

    def failing() -> None:
        with torch_threads(3):
            seen.append(torch.get_num_threads())
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        failing()
    assert seen == [3]
    assert torch.get_num_threads() == 1


def blas_threads() -> set[int]:
    """Of numpy's library."""
    return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}


def test_kernels_by_hand_obey_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    original = DQN.update

    def update(self: DQN, *args: Any) -> Any:
        assert self._by_hand is not None
        seen.append(blas_threads())
        return original(self, *args)

    monkeypatch.setattr(DQN, "update", update)
    dqn = {"name": "dqn", "unroll": 4, "batch": 32, "warmup": 16, "updates": 1}
    small = {"name": "mlp", "hidden": [16]}
    for threads in (2, 1):
        seen.clear()
        tree = experiment(algorithm=dqn, model=small, placement={"trainers": 1, "threads": threads})
        weights(tree, tmp_path, str(threads))
        assert seen
        assert all(found == {threads} for found in seen)


def test_numpy_is_limited_when_it_is_first_computed_with() -> None:
    limit_blas()
    assert blas_threads() == {1}
    allow_blas(2)
    assert blas_threads() == {2}
    limit_blas()
    assert blas_threads() == {2}


# ---------------------------------------------------------------- bits


@pytest.mark.parametrize("algorithm", [
    {"name": "ppo", "unroll": 128, "minibatch": 512, "epochs": 2, "shared": True},
    {"name": "dqn", "unroll": 8, "batch": 512, "warmup": 64, "updates": 4, "dueling": True},
])  # fmt: skip
def test_equal_seeds_and_threads_repeat_under_every_launcher(tmp_path: Path, algorithm: dict[str, Any]) -> None:
    """Also where actors live apart from the trainer, whose threads they do not have."""
    stop = {"updates": 2 if algorithm["name"] == "ppo" else 6}
    apart = experiment(algorithm=algorithm, stop=stop, placement={"actors": 2, "threads": 2})
    together = experiment(algorithm=algorithm, stop=stop, placement={"actors": 2, "together": True, "threads": 2})
    first = weights(apart, tmp_path, "first")
    assert equal(weights(apart, tmp_path, "again"), first)
    assert equal(weights(apart, tmp_path, "processes", on="local"), first)
    assert equal(weights(together, tmp_path, "together", on="local"), first)


def test_another_number_of_threads_differs_in_rounding_alone(tmp_path: Path) -> None:
    one, two = (
        weights(experiment(stop={"updates": 1}, placement={"trainers": 1, "threads": n}), tmp_path, str(n))
        for n in (1, 2)
    )
    named = {name for name in one if one[name].is_floating_point()}
    assert all(torch.allclose(one[name], two[name], atol=1e-3) for name in named)


def test_auto_is_one_where_nothing_is_probed(tmp_path: Path) -> None:
    """So a run that names no number keeps the bits that it had before there was one."""
    unsaid, said = experiment(stop={"updates": 1}), {"placement": {"trainers": 1, "threads": 1}}
    assert unsaid.placement.threads == "auto"
    assert expand(unsaid).experiment.placement.threads == 1
    assert equal(weights(unsaid, tmp_path, "auto"), weights(experiment(stop={"updates": 1}, **said), tmp_path, "one"))


# ---------------------------------------------------------------- as data


def reserved(**placement: Any) -> dict[str, float]:
    processes = expand(experiment(placement=placement)).processes
    return {process.name: process.resources.get("CPU", 0.0) for process in processes}


def test_a_cluster_reserves_a_core_for_each_thread() -> None:
    assert reserved(actors=2, threads=3) == {"trainer": 3.0, "actor-0": 1.0, "actor-1": 1.0}
    assert reserved(trainers=2, threads=2) == {"trainer-0": 2.0, "trainer-1": 2.0}
    more, part = ({"trainer": {"cpus": cpus}} for cpus in (4.0, 0.5))
    assert reserved(actors=1, threads=3, cluster=more)["trainer"] == 4.0
    assert reserved(actors=1, threads=3, cluster=part)["trainer"] == 3.0
    assert reserved(actors=1, cluster=part)["trainer"] == 0.5


def test_actors_of_a_cluster_get_what_threads_leave() -> None:
    assert fill_placement(experiment(placement={"threads": 4}), 8).placement.actors == 4
    assert fill_placement(experiment(), 9).placement.actors == 8


def test_a_plan_prints_them(tmp_path: Path) -> None:
    plan = plan_of(expand(experiment(placement={"actors": 2, "threads": 2})))
    assert {name: process["threads"] for name, process in plan["processes"].items()} == {
        "trainer": 2, "actor-0": 1, "actor-1": 1,
    }  # fmt: skip
    assert "; learns with 2 threads\n" in shoal("plan", "cartpole", "placement.threads=2", cwd=tmp_path).stdout
    assert "threads\n" not in shoal("plan", "cartpole", cwd=tmp_path).stdout


@pytest.mark.parametrize(("value", "problem"), [
    (0, "placement.threads = 0: should be greater than or equal to 1"),
    (-2, "placement.threads = -2: should be greater than or equal to 1"),
    ("two", "placement.threads = 'two': should be a whole number, or auto"),
    (1.5, "placement.threads = 1.5: should be a whole number, or auto"),
    (True, "placement.threads = true: should be a whole number, or auto"),
    (None, "placement.threads = null: should be a whole number, or auto"),
])  # fmt: skip
def test_what_is_no_number_of_threads_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        experiment(placement={"threads": value})
    assert str(refused.value) == problem
