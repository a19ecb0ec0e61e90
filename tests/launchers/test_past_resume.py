"""Past opponents are part of a checkpoint: a resumed self-play run meets the same pool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.api.experiment import Experiment
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from shoal.checkpoints.worker_state import state_of
from shoal.launchers.life import first_life
from shoal.program.expand import expand
from tests.launchers.processes import nothing_left


def experiment(updates: int, *, spread: bool) -> Experiment:
    past = {"of": "learner", "every": 2, "keep": 3, "spread": spread}
    tree: dict[str, Any] = {
        "env": {"id": "tests.launchers.duel:pair", "num_envs": 4}, "agents": {"player_0": "learner", "*": "rival"},
        "policies": {"learner": {}, "rival": {"past": past}}, "model": {"name": "mlp", "hidden": [8]},
        "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 16}, "stop": {"updates": updates}, "name": "rivals",
        "placement": {"actors": 2}, "log": {"tensorboard": False},
    }  # fmt: skip
    return Experiment.parse(tree)


def pool(found: Checkpoint) -> dict[int, np.ndarray]:
    kept = (state_of(found, "trainer-learner-0") or {})["archives"]["rival"]
    return {int(number): block for number, block in kept.items()}


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("on", ["inline", "local"])
def test_the_pool_is_that_of_the_run_that_was_left(tmp_path: Path, on: str, spread: bool) -> None:
    with nothing_left():
        whole = shoal.train(experiment(20, spread=spread), trial="whole", root=tmp_path, on=on, quiet=True)
        left = shoal.train(experiment(13, spread=spread), trial="left", root=tmp_path, on=on, quiet=True)
    store = CheckpointStore(left.folder / "checkpoints")
    before = pool(store.latest())
    assert len(before) == 3
    assert first_life(expand(experiment(20, spread=spread)), store.latest()).pools == {"rival": sorted(before)}
    with nothing_left():
        shoal.resume("rivals", "left", root=tmp_path, on=on, quiet=True, overrides=["stop.updates=20"])
    after, expected = pool(store.latest()), pool(CheckpointStore(whole.folder / "checkpoints").latest())
    assert sorted(after) == sorted(expected), "the same numbers are met as if the run had never been left"
    for number in set(before) & set(after):
        assert np.array_equal(before[number], after[number]), "and they are the same policies"
