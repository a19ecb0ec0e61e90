"""CartPole is learned by runs that were stopped on the way and resumed, by as many actors or by others."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

import shoal
from shoal.api.experiment import load_experiment
from shoal.recipes import find
from tests.learning.test_recipes import BARS

SEEDS = (1, 2, 3)
FIRST = 8
"""Updates before the stop: 16,000 steps, about 40 % of what it takes."""
AFTER = {
    "not stopped": None,
    "resumed": [],
    "resumed with 4 actors": ["placement.actors=4"],
    "resumed with 1 actor": ["placement.actors=1"],
}


def run(root: Path, seed: int, after: list[str] | None) -> tuple[float, int]:
    """Greedy mean return over 100 episodes that training never saw, and steps."""
    settings = [f"seed={seed}", "placement.actors=2", "placement.trainers=1", "log.tensorboard=false"]
    if after is not None:
        settings.append(f"stop.updates={FIRST}")
    outcome = shoal.train(load_experiment(find("cartpole"), settings), root=root, trial="a", on="local", quiet=True)
    if after is not None:
        assert outcome.version == FIRST, "it was stopped on the way"
        assert outcome.reason == f"stop.updates = {FIRST} reached"
        overrides = ["stop.updates=null", *after]
        outcome = shoal.resume("cartpole", "a", overrides=overrides, root=root, on="local", quiet=True)
    rows = [json.loads(line) for line in (outcome.folder / "metrics.jsonl").read_text().splitlines()]
    for name in ("step", "update", "rollout/episodes"):
        assert all(row[name] <= later[name] for row, later in pairwise(rows)), name
    scores, _ = shoal.evaluate(str(outcome.folder), episodes=100, seed=1000 + seed, root=root)
    return scores.mean, outcome.steps


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("how", AFTER)
def test_cartpole_is_learned(tmp_path: Path, how: str) -> None:
    bar, allowed, _ = BARS["cartpole"]
    results = [run(tmp_path / str(seed), seed, AFTER[how]) for seed in SEEDS]
    scores, steps = ", ".join(f"{score:.1f}" for score, _ in results), ", ".join(f"{taken:,}" for _, taken in results)
    print(f"\n| {how} | {scores} | {steps} |")
    assert all(score >= bar and taken <= 1.02 * allowed for score, taken in results)
