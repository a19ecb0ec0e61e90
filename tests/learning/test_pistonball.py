"""The recipe `pistonball`, made small: images through convolutions, many pistons by one policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shoal
from shoal.api.experiment import load_experiment
from shoal.recipes import find

SMALL = [
    "env.num_envs=2", "env.kwargs.n_pistons=3", "env.kwargs.max_cycles=25", "algorithm.minibatch=75", "stop.updates=3",
]  # fmt: skip


@pytest.mark.slow
def test_the_recipe_trains(tmp_path: Path) -> None:
    pytest.importorskip("pymunk", reason='pistonball needs its extra: pip install "shoal[butterfly]"')
    outcome = shoal.train(load_experiment(find("pistonball"), SMALL), root=tmp_path, on="inline", quiet=True)
    rows = [json.loads(line) for line in (outcome.folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["train/rows"] for row in rows[:3]] == [150, 144, 144]  # a truncation costs a row of its lane
    assert all(row["train/approx_kl"] > 0 for row in rows[1:3])  # the policy moves
    last = rows[2]
    assert last["rollout/game_return"] == pytest.approx(last["rollout/team_return"] / 3)
    scores, version = shoal.evaluate(str(outcome.folder), episodes=2, root=tmp_path)
    assert version == 3
    assert scores.game == pytest.approx(scores.mean / 3)
