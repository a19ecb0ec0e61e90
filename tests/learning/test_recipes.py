"""Every recipe to its bar: five seeds, evaluated by 100 greedy episodes on seeds that training never saw.

`make test-slow` runs all of it, in one thread and in processes, and prints the tables of docs/results.md; the fast tests train
CartPole once.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import pytest

SEEDS = (1, 2, 3, 4, 5)
BARS = {
    "cartpole": (475.0, 100_000, 5),
    "pendulum": (-200.0, 200_000, 4),
    "pendulum-sac": (-180.0, 30_000, 4),
    "cartpole-dqn": (475.0, 100_000, 4),
    "cartpole-memory": (450.0, 500_000, 4),
    "memory-corridor": (1.0, 150_000, 4),
    "deep-sea-stages": (0.98, 400_000, 4),
    "cartpole-memory-r2d2": (400.0, 500_000, 4),
    "lunarlander": (200.0, 1_000_000, 4),
    "acrobot": (-90.0, 300_000, 4),
    "cartpole-impala": (475.0, 500_000, 4),
    "cartpole-appo": (475.0, 200_000, 4),
    "cartpole-a2c": (475.0, 500_000, 4),
    "cartpole-a3c": (475.0, 500_000, 4),
    "cartpole-a4c": (475.0, 500_000, 4),
    "multi-cartpole": (900.0, 400_000, 4),
    "spread": (-11.0, 1_500_000, 4),
}
"""Recipe -> greedy mean return to reach, environment steps allowed, seeds of five that must."""

ELSEWHERE = {"spread": ["env.id=mpe2/simple_spread_v3", "env.kwargs={}"]}
"""Recipe -> the environment of its evaluation: 200 episodes, the mean return of one agent. It is trained in one thread alone."""

SHAPES = {
    "inline": ("inline", []),
    "two actors": ("local", ["placement.actors=2", "placement.trainers=1"]),
    "policy worker": ("local", ["placement.inference=worker", "placement.actors=1", "placement.trainers=1"]),
    "in step": ("local", ["placement.trainers=2"]),
    "buffer worker": ("local", ["placement.buffers=1", "placement.actors=1", "placement.trainers=1"]),
}
"""How a run is laid out: launcher, overrides. In step, replicas of the trainer share the work."""

REPLAYED = ("cartpole-dqn",)
"""Recipes that have something to keep in a buffer worker."""


def suits(recipe: str, shape: str) -> bool:
    """Whether a recipe is run that way."""
    if recipe in ELSEWHERE:
        return shape == "inline"
    return shape != "buffer worker" or recipe in REPLAYED


class Result(NamedTuple):
    seed: int
    steps: int
    score: float
    seconds: float


def train_and_judge(recipe: str, seed: int, shape: str) -> Result:
    """One run of a recipe, as `shoal train RECIPE --seed N` and `shoal evaluate` would do it."""
    import shoal
    from shoal.api.experiment import load_experiment
    from shoal.recipes import find

    on, overrides = SHAPES[shape]
    experiment = load_experiment(find(recipe), [f"seed={seed}", *overrides])
    with tempfile.TemporaryDirectory() as root:
        outcome = shoal.train(experiment, root=root, on=on, quiet=True)
        there, folder = ELSEWHERE.get(recipe), str(outcome.folder)
        scores, _ = shoal.evaluate(folder, overrides=there, episodes=200 if there else 100, seed=1000 + seed, root=root)
    score = scores.by_policy["agent"] if there else scores.mean
    return Result(seed, outcome.steps, score, outcome.seconds)


def reached(result: Result, bar: float, allowed: int) -> bool:
    """A batch is trained whole: a run may overshoot the last step allowed by less than one."""
    return result.score >= bar and result.steps <= allowed * 1.02


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("recipe", "shape"), [(r, s) for r in BARS for s in SHAPES if suits(r, s)])
def test_five_seeds(recipe: str, shape: str) -> None:
    bar, allowed, needed = BARS[recipe]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2 if shape == "inline" else 1, mp_context=spawn) as pool:
        results = list(pool.map(train_and_judge, [recipe] * len(SEEDS), SEEDS, [shape] * len(SEEDS)))
    good = sum(reached(result, bar, allowed) for result in results)
    scores = ", ".join(f"{result.score:.1f}" for result in results)
    steps = ", ".join(f"{result.steps:,}" for result in results)
    seconds = ", ".join(f"{result.seconds:.0f}" for result in results)
    bound = f"{bar:g} within {allowed:,}"
    print(f"\n| `{recipe}` | {shape} | {bound} | {good} of {len(SEEDS)} | {scores} | {steps} | {seconds} |")
    print(f"wall minutes: {', '.join(f'{result.seconds / 60:.1f}' for result in results)}")
    assert good >= needed


def test_cartpole_is_solved() -> None:
    bar, allowed, _ = BARS["cartpole"]
    result = train_and_judge("cartpole", 1, "inline")
    assert reached(result, bar, allowed), result
