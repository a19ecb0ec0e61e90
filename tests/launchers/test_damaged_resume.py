"""A run whose newest checkpoint is damaged goes on from the one before, and says what that costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal.api.experiment import Experiment
from shoal.base.errors import InputError
from shoal.runs.train import resume, train

SETTINGS = {
    "name": "chain", "env": {"id": "shoal/chain", "num_envs": 4},
    "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 16}, "model": {"name": "mlp", "hidden": [8]},
    "stop": {"updates": 4}, "checkpoint": {"every": "1 updates", "keep": 2}, "log": {"tensorboard": False},
}  # fmt: skip


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def test_damage_beside_the_state_falls_back_aloud(in_tmp: Path) -> None:
    folder = train(Experiment.parse(SETTINGS), trial="one", on="inline", quiet=True).folder
    flip(folder / "checkpoints" / "0000000004" / "actor-0.safetensors")
    outcome = resume("chain", "one", overrides=["stop.updates=5"], on="inline", quiet=True)
    assert outcome.version == 5
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [event["version"] for event in events if event["kind"] == "start"] == [0, 3]
    (said,) = (event["text"] for event in events if "passed over" in event.get("text", ""))
    assert said == (
        "checkpoint 4 is damaged and was passed over: actor-0.safetensors was changed since it was written: "
        "its SHA-256 is another; the run goes on from version 3 and loses 32 steps"
    )
    for path in (folder / "checkpoints").glob("0*/actor-0.safetensors"):
        flip(path)
    with pytest.raises(InputError, match="no checkpoint in runs/chain/one/checkpoints is whole"):
        resume("chain", "one", overrides=["stop.updates=6"], on="inline", quiet=True)
