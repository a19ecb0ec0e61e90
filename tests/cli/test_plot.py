"""`shoal plot`, as typed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.cli.test_cli import refused, shoal
from tests.monitoring.written import write_run

pytest.importorskip("matplotlib", reason="the extra `plot`")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for seed in (1, 2, 3):
        write_run(tmp_path / "runs", f"one/{seed}", [float(seed), 2.0 * seed], seed=seed, stop={"return": 9})
    write_run(tmp_path / "runs", "two/a", [5.0, 6.0, 7.0])
    write_run(tmp_path / "runs", "two/b", [5.0, 6.0])
    return tmp_path


def test_plot(place: Path) -> None:
    done = shoal("plot", "one", "two", "--out", "pictures/both.png", cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "pictures/both.png: rollout/ep_rew_mean of one (3 runs), two\n"
    assert done.stderr == "shoal: two/b repeats two/a, number by number: counted once\n"
    assert (place / "pictures/both.png").read_bytes().startswith(b"\x89PNG")
    assert shoal("plot", "two/a", "--x", "seconds", "--metric", "update", cwd=place).returncode == 0
    assert (place / "plot.png").is_file()


def test_wrong_words(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no run 'three'" in refused("plot", "one", "three", cwd=place)
    assert "one has no 'eval/mean_reward'" in refused("plot", "one", "--metric", "eval/mean_reward", cwd=place)
    assert "--x miles: there is no such axis" in refused("plot", "one", "--x", "miles", cwd=place)
    assert "--out p.gif" in refused("plot", "one", "--out", "p.gif", cwd=place)
    assert not list(place.glob("*.png"))
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find_spec(name))
    assert "pip install 'shoal[plot]'" in refused("plot", "one", cwd=place)


def test_several_numbers_and_the_settings_of_a_sweep(tmp_path: Path) -> None:
    for lr in (0.1, 0.2):
        for seed in (1, 2):
            write_run(tmp_path / "runs", f"sweep/{lr}-{seed}", [lr, float(seed)], seed=seed, algorithm={"lr": lr})
    trials = [f"sweep/{lr}-{seed}" for lr in (0.1, 0.2) for seed in (1, 2)]
    done = shoal("plot", *trials, "--metric", "update", "--metric", "rollout/ep_rew_mean", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "plot.png: update, rollout/ep_rew_mean of lr=0.1 (2 runs), lr=0.2 (2 runs)\n"
