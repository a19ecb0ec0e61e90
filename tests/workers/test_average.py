"""Replicas that train alone and mix their weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shoal
from shoal.api.experiment import Experiment
from shoal.api.program import Program
from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore
from shoal.program.expand import expand
from shoal.rollout.plans import Plans
from shoal.streams.stream_set import MemoryStreams
from shoal.workers.average import Average
from shoal.workers.context import Context, Life
from tests.launchers.live import Run, train
from tests.launchers.processes import nothing_left


def experiment(replicas: int = 2, algorithm: str = "a2c", **placement: Any) -> Experiment:
    learns = {"a2c": {"name": "a2c", "unroll": 8}, "sac": {"name": "sac", "unroll": 4, "warmup": 8, "batch": 8}}[
        algorithm
    ]
    env = {"a2c": "CartPole-v1", "sac": "Pendulum-v1"}[algorithm]
    agree = {"name": "average", "every": 2, "alpha": 0.25}
    return Experiment.parse({
        "env": {"id": env, "num_envs": 4}, "algorithm": learns, "model": {"name": "mlp", "hidden": [8]},
        "placement": {"trainers": replicas, "agree": agree, **placement}, "stop": {"updates": 6},
        "log": {"tensorboard": False}, "name": "mixed",
    })  # fmt: skip


def replicas(program: Program, alpha: float) -> list[tuple[Average, Any]]:
    streams, life = MemoryStreams(program), Life(starts={"agent": 0})
    made = []
    for rank in range(program.trainers):
        plan = Plans(program)["agent"]
        config = Average.Config(every=2, alpha=alpha)
        made.append(
            (
                Average(plan, rank, program.trainers, Context(program, Plans(program), streams, life), config),
                plan.algorithm,
            )
        )
    return made


def weights(algorithm: Any) -> torch.Tensor:
    return torch.cat([optimiser.flat.parameters.detach() for optimiser in algorithm.optimisers])


@pytest.mark.parametrize("algorithm", ["a2c", "sac"])
@pytest.mark.parametrize("alpha", [1.0, 0.25])
def test_a_replica_takes_its_share_of_the_mean(algorithm: str, alpha: float) -> None:
    made = replicas(expand(experiment(2, algorithm)), alpha)
    for number, (_, learner) in enumerate(made):
        for optimiser in learner.optimisers:
            optimiser.flat.parameters.detach().copy_(torch.randn(optimiser.flat.parameters.shape) + number)
    own = [weights(learner) for _, learner in made]
    for sync, learner in made:
        sync.updated(learner, 1)
        assert torch.equal(weights(learner), own[sync.rank]), "only every second update"
    (first, one), (second, two) = made
    first.updated(one, 2)  # nobody else has given anything yet
    torch.testing.assert_close(weights(one), own[0])
    second.updated(two, 2)
    torch.testing.assert_close(weights(two), (1 - alpha) * own[1] + alpha * (own[0] + own[1]) / 2)


def test_a_new_life_goes_on_from_what_was_given_last() -> None:
    program = expand(experiment())
    ((sync, learner), _) = replicas(program, 1.0)
    sync.updated(learner, 2)
    given = weights(learner)
    fresh = Plans(program)["agent"].algorithm
    fresh.optimisers[0].flat.parameters.detach().zero_()
    sync.recover(fresh, kept=False)
    assert np.array_equal(weights(fresh).numpy(), given.numpy())


@pytest.mark.parametrize("on", ["inline", "local"])
def test_it_trains_and_is_saved(tmp_path: Path, on: str) -> None:
    with nothing_left():
        outcome = shoal.train(experiment(), trial="one", root=tmp_path, on=on, quiet=True)
    found = CheckpointStore(outcome.folder / "checkpoints").latest()
    assert found.meta["versions"]["agent"] >= 6
    if on == "inline":  # they take turns
        assert outcome.steps > 2 * 5 * 16, "steps of both replicas are counted"


def test_a_dead_replica_comes_back_alone(tmp_path: Path) -> None:
    def script(run: Run) -> None:
        run.go_on()
        other = run.worker("trainer-agent-0")["pid"]
        run.kill("trainer-agent-1")
        assert run.worker("trainer-agent-0")["pid"] == other
        run.go_on(10)

    endless = experiment().model_copy(update={"stop": Experiment.parse({"env": "CartPole-v1"}).stop})
    with nothing_left():
        train(endless, tmp_path, script)


def test_what_does_not_fit_is_one_line() -> None:
    with pytest.raises(InputError, match="each replica acts with its own weights"):
        expand(experiment(inference="worker"))
    with pytest.raises(InputError, match="average replicas never agree to the bit"):
        expand(experiment(exact=True))
    with pytest.raises(InputError, match=r"placement.agree.alpha = 2.0: should be less than or equal to 1"):
        expand(experiment(agree={"name": "average", "alpha": 2.0}))
