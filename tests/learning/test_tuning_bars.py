"""`shoal tune` to its bar: on CartPole, from a range of learning rates over six orders of magnitude, in 40 trials."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

import shoal

pytest.importorskip("optuna", reason="`shoal[tune]` is not installed")

from shoal.analysis.statistics import probability_of_improvement
from shoal.analysis.tuning import confirmed, saved_steps
from shoal.population.start import Options, sweep, tune
from shoal.population.state import Member, State
from shoal.population.tune import confirmations_of, ranked, trials_of

STEPS, TRIALS, SEEDS = 40_960, 40, 10
RECIPE: dict[str, Any] = {
    "env": {"id": "CartPole-v1", "num_envs": 16},
    "algorithm": {"name": "ppo", "lr": 1e-5, "unroll": 32, "gamma": 0.98, "lam": 0.9},
    "model": {"name": "mlp", "hidden": [64, 64]},
    "stop": {"steps": STEPS},
    "log": {"tensorboard": False},
}
SPACE = {"algorithm.lr": {"log": [1e-6, 1.0]}}


def searched(root: Path, name: str, **how: Any) -> State:
    values = {**RECIPE, "tune": {"space": SPACE, "trials": TRIALS, **how}}
    return tune(values, [], Options(name, root=root, quiet=True)).state


def greedy(folder: Path, members: Iterable[Member]) -> list[float]:
    return [shoal.evaluate(str(folder / each.name), episodes=20, seed=7)[0].mean for each in members]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_tuned_recipe_beats_the_median_random_trial(tmp_path: Path) -> None:
    """Runs of what was found, on fresh seeds, beside runs of the rate that is the median of 40 random ones, on the same seeds: the
    share of pairs in which the tuned one is better, equal ones counted half."""
    tuned = searched(tmp_path, "tuned", top=3, seeds=SEEDS)
    best = confirmed(tuned)[0]
    ours = greedy(tmp_path / "tuned", (m for m in confirmations_of(tuned) if m.facts["confirms"] == best["trial"]))
    tried = searched(tmp_path, "random", sampler="random", pruner="none", top=1, seeds=1)
    rate = ranked(trials_of(tried))[TRIALS // 2].facts["values"]["algorithm.lr"]
    grid = {"grid": {"algorithm.lr": [rate]}, "seeds": SEEDS}
    median = sweep({**RECIPE, "seed": 1, "sweep": grid}, [], Options("median", root=tmp_path, quiet=True)).state
    theirs = greedy(tmp_path / "median", median.members.values())
    better, saved = probability_of_improvement(ours, theirs), saved_steps(tuned, STEPS)
    print(
        f"\ntuned: lr {best['values']['algorithm.lr']:.2g}, {mean(ours):.0f}; median of {TRIALS} random trials: lr {rate:.2g}, "
        f"{mean(theirs):.0f}; better with probability {better:.3f}; pruning saved {saved:.0%} of the steps"
    )
    assert len(ours) == len(theirs) == SEEDS
    assert better >= 0.95
    assert saved >= 0.5
