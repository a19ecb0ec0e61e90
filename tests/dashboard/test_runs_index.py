"""The list of runs: states, scores, what changed; and what is in the folder that is none of ours."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import made_runs
import pytest

from shoal.base.errors import InputError

pytest.importorskip("starlette", reason="an extra: pip install 'shoal[dashboard]'")
from shoal.dashboard.below import Root
from shoal.dashboard.checkpoints import list_checkpoints
from shoal.dashboard.pages.control import checked
from shoal.dashboard.runs_index import RunsIndex
from shoal.dashboard.settings import read_settings


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunsIndex:
    monkeypatch.setattr("shoal.dashboard.runs_index.BETWEEN", 0.0)
    return RunsIndex(Root(tmp_path))


def test_records_and_what_changed(tmp_path: Path, index: RunsIndex) -> None:
    made_runs.make_run(tmp_path, "cart", "a", end="stop.steps = 122,880 reached")
    died = made_runs.make_run(tmp_path, "cart", "b", end=None)
    made_runs.make_run(tmp_path, "own", "c", end="enough, said a callback")
    (died / "logs").mkdir()
    (died / "logs" / "local.log").write_text(
        "x ERROR the run ends\nTraceback\nshoal.base.errors.ShoalError: actor-0 died 4 times\n"
    )
    number, runs, _ = index.changes(-1)
    done, crashed, own = sorted(runs, key=lambda run: run["trial"])
    assert (own["state"], own["group"], own["why"]) == ("ended", "done", "enough, said a callback")
    assert (done["state"], done["group"], done["why"]) == ("finished", "done", "stop.steps = 122,880 reached")
    assert (crashed["state"], crashed["group"], crashed["why"]) == ("crashed", "died", "actor-0 died 4 times")
    assert done["steps"] == 60 * 2048
    assert done["score"]["low"] < done["score"]["mean"] < done["score"]["high"]
    assert 20 < len(done["spark"]) <= 48
    assert (done["algorithm"], done["env"], done["seed"]) == ("ppo", "CartPole-v1", "1")
    assert index.changes(number)[1:] == ([], []), "nothing changed"
    made_runs.write_rows(died / "metrics.jsonl", 60, 61)
    later, runs, _ = index.changes(number)
    assert [run["run"] for run in runs] == ["cart/b"]
    shutil.rmtree(died)
    assert index.changes(later)[1:] == ([], ["cart/b"])


def test_words_choose(tmp_path: Path, index: RunsIndex) -> None:
    made_runs.make_run(tmp_path, "cart", "a", seed=1)
    made_runs.make_run(tmp_path, "walk", "b", seed=2, lr=0.01)
    assert index.fitting(["cart"]) == ["cart/a"]
    assert index.fitting(["algorithm.lr>0.005"]) == ["walk/b"]
    assert index.fitting(["seed=1", "algorithm=ppo"]) == ["cart/a"]
    with pytest.raises(InputError, match="no run has 'lrr'"):
        index.fitting(["lrr=1"])


def test_links_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path, index: RunsIndex) -> None:
    secret = tmp_path.parent / f"{tmp_path.name}-secret"
    run = made_runs.make_run(secret, "out", "side")
    (run / "logs").mkdir()
    (run / "logs" / "local.log").write_text("secret")
    made_runs.make_run(tmp_path, "in", "side")
    os.symlink(secret / "out", tmp_path / "linked")
    os.symlink(run, tmp_path / "in" / "linked")
    inside = made_runs.make_run(tmp_path, "in", "parts", end=None)
    for name in ("logs", "metrics.jsonl", "events.jsonl", "checkpoints", "provenance.json"):
        (inside / name).unlink(missing_ok=True)
        os.symlink(run / name, inside / name)
    os.symlink("/etc/hostname", inside / "videos")
    _, runs, _ = index.changes(-1)
    found = {each["run"]: each for each in runs}
    assert set(found) == {"in/side", "in/parts"}
    assert found["in/parts"]["steps"] == 0
    assert found["in/parts"]["why"] == "its process is gone, and left no word"
    root = Root(tmp_path)
    for parts in (
        ["in", "parts", "metrics.jsonl"],
        ["in", "parts", "logs", "local.log"],
        ["linked", "side", "config.yaml"],
    ):
        with pytest.raises(FileNotFoundError), root.file(*parts):
            pass
    for name in ("..", ".", "", "a/b", "../x", "\0", ".hidden", "x" * 300):
        with pytest.raises(FileNotFoundError), root.folder("in", name):
            pass
    assert root.names("in", "parts", "logs", folders=False) == []


@pytest.mark.parametrize(
    "config",
    [
        "a: &a [1]\nb: *a\n",
        "[1, 2]",
        "x: !!python/object/apply:os.system ['touch owned']",
        "{" * 3000,
        "\x00",
        "seed: {a: {b: 1}}\nstop: 5",
        "env: {id: 'os:system'}\nalgorithm: {name: 'os:getcwd'}\n",
    ],
)
def test_hostile_settings_are_data(
    tmp_path: Path, index: RunsIndex, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = made_runs.make_run(tmp_path, "cart", "a")
    (folder / "config.yaml").write_text(config)
    _, runs, _ = index.changes(-1)
    json.dumps(runs, allow_nan=False)
    assert [run["run"] for run in runs] == ["cart/a"]
    assert not (tmp_path / "owned").exists()
    assert isinstance(read_settings(Root(tmp_path), "cart/a"), dict)


def test_checkpoints_are_listed_and_nothing_is_touched(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from shoal.checkpoints.store import CheckpointStore

    folder = made_runs.make_run(tmp_path, "cart", "a")
    store = CheckpointStore(folder / "checkpoints")
    for version in (3, 12):
        store.save(version, {"w": torch.zeros(3)}, {"steps": 100 * version})
    store.tag("best", 3)
    (folder / "checkpoints" / "0000000012" / "manifest.json").write_text("{}")
    before = sorted(str(path) for path in folder.rglob("*"))
    newest, oldest = list_checkpoints(Root(tmp_path), "cart/a")
    assert (newest["version"], newest["tags"], newest["steps"]) == (12, [], None)
    assert "manifest.json" in newest["damage"]
    assert (oldest["version"], oldest["tags"], oldest["steps"], oldest["damage"]) == (3, ["best"], 300, None)
    assert sorted(str(path) for path in folder.rglob("*")) == before


@pytest.mark.parametrize(
    "words",
    ["", "status", "SIGTERM", "watch", "stop now", "reconfigure", "reconfigure lr=$(id)", "reconfigure a b lr=1"],
)
def test_only_orders_that_there_are(words: str) -> None:
    with pytest.raises(InputError):
        checked(words)
    assert checked(" reconfigure  learner lr=1e-4 ") == "reconfigure learner lr=1e-4"
