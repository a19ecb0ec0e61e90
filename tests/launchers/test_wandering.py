"""An environment that goes to another folder takes no file of its run along."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from shoal.api.experiment import Experiment
from shoal.runs.rollout import rollout
from shoal.runs.train import resume, train

WANDERER = """
import os
import gymnasium

class Wanderer(gymnasium.Wrapper):
    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1"))
        os.makedirs("{away}/first", exist_ok=True)
        os.chdir("{away}/first")

    def step(self, action):
        os.chdir("{away}")
        return super().step(action)
"""


def test_paths_are_those_of_the_start(in_tmp: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    away = tmp_path_factory.mktemp("away")
    (in_tmp / "wanderer.py").write_text(WANDERER.format(away=away))
    settings = {
        "name": "cartpole", "env": {"id": "wanderer.py:Wanderer", "num_envs": 4},
        "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 32}, "model": {"name": "mlp", "hidden": [8]},
        "stop": {"updates": 200, "return": 1, "episodes": 2}, "checkpoint": {"every": "1 updates"},
    }  # fmt: skip
    outcome = train(Experiment.parse(settings), trial="one", on="inline", quiet=True)
    assert outcome.reason.startswith("stop.return"), "the environment was found again to confirm it"
    folder = in_tmp / "runs" / "cartpole" / "one"
    assert outcome.folder == folder
    assert {"config.yaml", "metrics.jsonl", "checkpoints", "events.jsonl", "tensorboard"} <= {
        p.name for p in folder.iterdir()
    }
    assert json.loads((folder / "provenance.json").read_text())["folder"] == str(in_tmp)

    os.chdir(in_tmp)
    last = outcome.version + 2
    resume("cartpole", "one", overrides=[f"stop.updates={last}", "stop.return=null"], on="inline", quiet=True)
    assert (folder / "checkpoints" / f"{last:010d}").is_dir()

    os.chdir(in_tmp)
    _, out = rollout("cartpole/one", episodes=1, out="episodes")
    assert out == in_tmp / "episodes"
    assert (out / "episodes.csv").is_file()
    assert [path.name for path in away.rglob("*")] == ["first"], "nothing else went along"
