"""Learning in bfloat16 on the CPU: PPO, SAC and a small game by its image reach the bars that they reach in float32.

The fast tests train toys, and the game once; `make test-slow` takes five seeds of each.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from tests.algorithms.batches import learned
from tests.learning.test_recipes import BARS, SEEDS, Result, reached

CATCH: dict[str, Any] = {
    "env": {"id": "tests.learning.catch:Catch", "num_envs": 32},
    "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 128, "epochs": 2, "lr": 2e-3, "entropy": 0.01, "gamma": 0.95},
    "model": {"name": "nature", "channels": [8, 16, 16], "hidden": [64]},
    "stop": {"steps": 60_000, "return": 0.9},
    "name": "catch",
}  # fmt: skip
TASKS = {"cartpole": BARS["cartpole"], "pendulum-sac": BARS["pendulum-sac"], "catch": (0.9, 60_000, 4)}
"""Recipe -> greedy mean return to reach, environment steps allowed, seeds of five that must."""


def trained(task: str, seed: int, precision: str) -> Result:
    import tempfile

    import shoal
    from shoal.api.experiment import Experiment, load_experiment
    from shoal.recipes import find

    placement = {"precision": precision}
    if task == "catch":
        experiment = Experiment.parse({**CATCH, "seed": seed, "placement": placement})
    else:
        experiment = load_experiment(find(task), [f"seed={seed}", f"placement.precision={precision}"])
    with tempfile.TemporaryDirectory() as root:
        outcome = shoal.train(experiment, root=root, on="inline", quiet=True)
        scores, _ = shoal.evaluate(str(outcome.folder), episodes=100, seed=1000 + seed, root=root)
    return Result(seed, outcome.steps, scores.mean, outcome.seconds)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("task", TASKS)
def test_five_seeds_in_bf16(task: str) -> None:
    bar, allowed, needed = TASKS[task]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(trained, [task] * len(SEEDS), SEEDS, ["bf16"] * len(SEEDS)))
    good = sum(reached(result, bar, allowed) for result in results)
    scores = ", ".join(f"{result.score:.2f}" for result in results)
    steps = ", ".join(f"{result.steps:,}" for result in results)
    print(f"\n| `{task}` in bf16 | {bar:g} within {allowed:,} | {good} of {len(SEEDS)} | {scores} | {steps} |")
    assert good >= needed


@pytest.mark.parametrize(
    ("task", "algorithm", "bar"),
    [
        ("shoal/chain", {"name": "ppo", "unroll": 16, "minibatch": 64, "lr": 3e-3}, 1.0),
        ("shoal/target", {"name": "ppo", "unroll": 16, "minibatch": 64, "lr": 3e-3, "squash": True, "gamma": 0.0}, -0.1),
        ("shoal/chain", {"name": "dqn", "unroll": 4, "warmup": 200, "updates": 8, "lr": 3e-3, "gamma": 0.9,
                         "epsilon": {"start": 1.0, "end": 0.05, "steps": 2_000}}, 0.95),
        ("shoal/target", {"name": "sac", "unroll": 4, "warmup": 200, "updates": 8, "lr": 3e-3, "gamma": 0.9,
                          "temperature": 0.1}, -0.1),
    ],
    ids=["ppo", "ppo, squashed", "dqn", "sac"],
)  # fmt: skip
def test_toys_are_learned_in_bf16(tmp_path: Any, task: str, algorithm: dict[str, Any], bar: float) -> None:
    model = {"name": "mlp", "hidden": [32, 32], "activation": "relu"}
    assert learned(tmp_path, task, algorithm, model, 80, precision="bf16") >= bar


def test_a_game_by_its_image_is_learned_in_bf16() -> None:
    result = trained("catch", 1, "bf16")
    assert reached(result, *TASKS["catch"][:2]), result
