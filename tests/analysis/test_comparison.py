"""Runs side by side, from folders that hold known numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.analysis import comparison
from shoal.analysis.comparison import compare, summary
from shoal.analysis.statistics import bootstrap_interval
from shoal.analysis.trials import find_group
from shoal.base.errors import ShoalError
from tests.cli.test_cli import refused, shoal
from tests.monitoring.written import write_run


def evaluated(root: Path, name: str, returns: list[float | None], score: float, reason: str, **settings: Any) -> None:
    """A run that ended, with a confirmation in its last row."""
    trial = write_run(root, name, returns, **settings)
    last = {
        "step": 1000,
        "update": 50,
        "rollout/ep_rew_mean": returns[-1],
        "eval/mean_reward": score,
        "eval/std_reward": 3,
    }
    with open(trial.folder.metrics, "a") as file:
        file.write(json.dumps(last) + "\n")
    trial.folder.event("start", version=0, resumed=False)
    trial.folder.event("stop", reason=reason, steps=1000, update=50, elapsed=4.0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for seed, score in enumerate((90.0, 94.0, 95.0, 99.0, 10.0)):
        evaluated(tmp_path, f"e/{seed}", [seed + 20.0, seed + 10.0], score, "stop.return = 9 reached: yes", seed=seed)
    evaluated(
        tmp_path, "f/one", [7.0, None], 5.0, "stopped by order", stop={"episodes": 36}, algorithm={"lr": 0.2, "k": None}
    )
    return tmp_path


def test_one_run(root: Path) -> None:
    assert summary(find_group("f/one", root)[0]) == {
        "run": "f/one", "trials": 1, "seeds": [1], "steps": 1000, "seconds": 4.0, "steps_per_second": 250.0,
        "final_return": {"mean": 7.0, "low": None, "high": None},
        "best_return": {"mean": 7.0, "low": None, "high": None},
        "evaluation": {"mean": 5.0, "low": pytest.approx(5 - 1.96 * 3 / 6), "high": pytest.approx(5 + 1.96 * 3 / 6)},
        "ended": {"stopped by order": 1},
    }  # fmt: skip


def test_several_runs(root: Path) -> None:
    found = summary(find_group("e", root)[0])
    assert found["seeds"] == [0, 1, 2, 3, 4]
    assert found["final_return"]["mean"] == 12
    assert found["best_return"]["mean"] == 22
    scores = [90.0, 94.0, 95.0, 99.0, 10.0]
    assert found["evaluation"]["mean"] == 93, "the middle three"
    assert (found["evaluation"]["low"], found["evaluation"]["high"]) == bootstrap_interval([scores])
    assert found["ended"] == {"stop.return = 9 reached": 5}


def test_only_settings_that_differ(root: Path) -> None:
    groups = [find_group(run, root)[0] for run in ("e", "f")]
    assert compare(groups)["differences"] == {
        "algorithm.lr": [[0.1], [0.2]],
        "algorithm.k": [[], [None]],
        "seed": [[0, 1, 2, 3, 4], [1]],
        "stop.episodes": [[], [36]],
    }
    assert compare(groups[1:])["differences"] == {}


def test_a_run_without_rows_or_end(root: Path) -> None:
    trial = write_run(root, "g/empty", [])
    found = summary(find_group("g", root)[0])
    assert found["final_return"] is found["evaluation"] is found["steps_per_second"] is None
    assert found["ended"] == {"no end recorded": 1}
    trial.folder.metrics.unlink()
    assert summary(find_group("g", root)[0])["steps"] == 0


def test_a_run_that_lives(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(root, "g/live", [1.0, 2.0])

    def silent(*_: Any) -> dict[str, Any]:
        raise ShoalError("it took too long")

    for answer, said in ((lambda *_: {"state": "paused"}, "paused"), (silent, "does not answer")):
        monkeypatch.setattr(comparison, "obey", answer)
        found = summary(find_group("g/live", root)[0])
        assert found["ended"] == {said: 1}
        assert (found["steps"], found["final_return"]["mean"]) == (20, 2.0)


def test_the_table(root: Path) -> None:
    root.rename(root.parent / "runs")
    done = shoal("compare", "e", "f/one", cwd=root.parent)
    (root.parent / "runs").rename(root)
    assert done.returncode == 0, done.stderr
    head, experiment, run, gap, settings, *rest = done.stdout.splitlines()
    assert head.split() == ["run", "seeds", "steps", "time", "steps/s", "final", "return", "best", "greedy", "ended"]
    assert experiment.split()[:5] == ["e", "5", "1,000", "4s", "250"]
    assert "93.0 (" in experiment
    assert experiment.endswith("5 x stop.return = 9 reached")
    assert run.endswith("5.0 (4.0 to 6.0)  stopped by order")
    assert (gap, settings.split()) == ("", ["setting", "e", "f/one"])
    assert [line.split()[0] for line in rest] == ["algorithm.k", "algorithm.lr", "seed", "stop.episodes"]
    assert rest[0].split()[1:] == ["-", "null"]


def test_what_scripts_read(root: Path) -> None:
    done = shoal("compare", str(root / "e"), "--json", cwd=root)
    assert json.loads(done.stdout)["runs"][0]["trials"] == 5
    assert "there is no run 'h'" in refused("compare", str(root / "e"), "h", cwd=root)
