"""The recipe `deep-sea`: novelty finds the treasure 20 rows deep, and the very same recipe without it does not.

`make test-slow` prints the table of docs/results.md.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import pytest

SEEDS = (1, 2, 3, 4, 5)
EPISODES = 10_000
SOLVED = 0.98
"""The best is 0.99, and whoever misses the treasure has at most 0."""
WITHOUT = ["algorithm.novelty=false"]


class Result(NamedTuple):
    seed: int
    score: float
    episodes: int
    seconds: float


def train_and_judge(seed: int, overrides: list[str]) -> Result:
    """As `shoal train deep-sea --seed N` and `shoal evaluate` would do it."""
    import shoal
    from shoal.api.experiment import load_experiment
    from shoal.recipes import find

    experiment = load_experiment(find("deep-sea"), [f"seed={seed}", *overrides])
    with tempfile.TemporaryDirectory() as root:
        outcome = shoal.train(experiment, root=root, on="inline", quiet=True)
        last = json.loads((outcome.folder / "metrics.jsonl").read_text().splitlines()[-1])
        scores, _ = shoal.evaluate(str(outcome.folder), episodes=20, seed=1000 + seed, root=root)
    return Result(seed, scores.mean, int(last["rollout/episodes"]), outcome.seconds)


def solved(name: str, seeds: tuple[int, ...], overrides: list[str]) -> int:
    """How many seeds play for the treasure after at most 10,000 episodes; prints a row of the table."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(train_and_judge, seeds, [overrides] * len(seeds)))
    good = sum(result.score >= SOLVED and result.episodes <= EPISODES for result in results)
    scores = ", ".join(f"{result.score:.3f}" for result in results)
    episodes = ", ".join(f"{result.episodes:,}" for result in results)
    seconds = ", ".join(f"{result.seconds:.0f}" for result in results)
    print(f"\n| {name} | {good} of {len(seeds)} | {scores} | {episodes} | {seconds} |")
    return good


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_novelty_finds_the_treasure() -> None:
    assert solved("novelty", SEEDS, []) >= 3


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_random_actions_alone_do_not() -> None:
    assert solved("without", SEEDS[:2], WITHOUT) == 0
