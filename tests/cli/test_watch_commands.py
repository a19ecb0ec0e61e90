"""`--wandb`, `wandb-push`, and what other libraries call them."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest

from shoal.base.peers import peer_key
from tests.cli.test_cli import QUICK, refused, shoal


@pytest.fixture(autouse=True)
def _nobody_elses_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_run_is_shown_from_its_resume_on_and_pushed(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="an extra: `shoal[wandb]`")
    from tests.monitoring.wandb_files import parts, rows

    assert shoal("train", "cartpole", "--trial", "one", *QUICK, cwd=tmp_path).returncode == 0
    run = tmp_path / "runs" / "cartpole" / "one"
    assert not (run / "wandb.json").exists()
    words = ["train", "cartpole", "--trial", "one", "--resume", "stop.updates=4", "--wandb", "offline"]
    done = shoal(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "W&B: offline, in runs/cartpole/one/wandb" in done.stdout + done.stderr
    (file,) = parts(run)
    assert [row["update"] for row in rows(file)] == [1, 2, 3, 4], "what was before is shown as well"
    kept = json.loads((run / "wandb.json").read_text())
    done = shoal("wandb-push", "cartpole/one", "--wandb", "offline", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "4 rows were handed over"
    _, again = parts(run)
    assert [row["update"] for row in rows(again)] == [1, 2, 3, 4]
    assert json.loads((run / "wandb.json").read_text()) == kept, "one run there, however often"


def test_wrong_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = refused("train", "cartpole", "--wandb", "sometimes", *QUICK, cwd=tmp_path)
    assert "log.wandb.mode = 'sometimes': should be 'online', 'offline' or 'disabled'" in said
    for command in ("wandb-push", "evaluate"):
        assert "there is no run 'nobody'" in refused(command, "nobody", "--wandb", "offline", cwd=tmp_path)
    said = refused("train", "cartpole", "use_wandb=true", *QUICK, cwd=tmp_path)
    assert "did you mean 'log.wandb'?" in said

    def nothing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", nothing)
    said = refused("train", "cartpole", "--wandb", "offline", *QUICK, cwd=tmp_path)
    assert said == "shoal: log.wandb needs wandb: pip install 'shoal[wandb]'"
    assert not (tmp_path / "runs").exists()


def test_what_others_call_it() -> None:
    assert peer_key("track", ()) == "log.wandb"
    assert peer_key("wandb_project_name", ()) == "log.wandb.project"
