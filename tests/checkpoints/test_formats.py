"""Runs that earlier Shoals saved: `format-1/` was written by the last one that wrote format 1, and must never change."""

import json
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch

import shoal
from shoal.checkpoints.manifest import FORMAT
from shoal.checkpoints.store import CheckpointStore

HERE = Path(__file__).parent
OLD = sorted(HERE.glob("format-*/*/old"))


def test_every_format_before_ours_is_stored() -> None:
    stored = {int(folder.parents[1].name.removeprefix("format-")) for folder in OLD}
    assert stored == set(range(1, FORMAT))


@pytest.mark.parametrize("run", OLD, ids=lambda run: str(run.relative_to(HERE).parent))
def test_it_loads(run: Path) -> None:
    (folder,) = (run / "checkpoints").iterdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert f"format-{manifest['format']}" == run.parents[1].name
    found = CheckpointStore(run / "checkpoints").latest()
    assert (found.version, found.meta, found.extras, found.skipped) == (1, manifest["meta"], [], [])
    plain = safetensors.torch.load_file(folder / "state.safetensors")
    assert found.tensors.keys() == plain.keys() == manifest["tensors"].keys()
    assert all(torch.equal(found.tensors[name], plain[name]) for name in plain)


@pytest.mark.parametrize("run", OLD, ids=lambda run: str(run.relative_to(HERE).parent))
def test_it_is_evaluated_and_goes_on(run: Path, tmp_path: Path) -> None:
    name = run.parent.name
    shutil.copytree(run, tmp_path / name / "old")
    scores, version = shoal.evaluate(f"{name}/old", episodes=2, root=tmp_path)
    assert (version, len(scores.returns)) == (1, 2)
    outcome = shoal.resume(name, "old", overrides=["stop.updates=3"], root=tmp_path, on="inline", quiet=True)
    assert (outcome.version, outcome.reason) == (3, "stop.updates = 3 reached")
    newest = json.loads((outcome.folder / "checkpoints/0000000003/manifest.json").read_text())
    assert newest["format"] == FORMAT
    assert newest["meta"]["steps"] == outcome.steps > CheckpointStore(run / "checkpoints").latest().meta["steps"]
