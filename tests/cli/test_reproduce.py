"""`shoal reproduce`, as typed: equal runs, runs that were tampered with, and runs that did not end by themselves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.test_cli import QUICK, refused, shoal


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one exact run of three updates, cartpole/one."""
    place = tmp_path_factory.mktemp("reproduce")
    words = ("train", "cartpole", "--trial", "one", "--on", "inline", *QUICK, "stop.updates=3", "seed=7")
    assert shoal(*words, cwd=place).returncode == 0
    return place


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    shutil.copytree(original / "runs", tmp_path / "runs")
    return tmp_path


def rows(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def write_rows(folder: Path, lines: list[dict[str, float]]) -> None:
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_same_again(place: Path) -> None:
    done = shoal("reproduce", "cartpole/one", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "reproducing cartpole/one --on inline\n" in done.stdout
    said = (
        "equal: 3 rows of cartpole/one and cartpole/one-again, and version 3, bit for bit; not compared: time/, rows/"
    )
    assert done.stdout.splitlines()[-1] == said
    again = place / "runs/cartpole/one-again"
    assert json.loads((again / "provenance.json").read_text())["launcher"] == "inline"
    assert (again / "config.yaml").read_text() == (place / "runs/cartpole/one/config.yaml").read_text()
    assert "equal: 3 rows" in shoal("reproduce", "cartpole/one", "--on", "local", cwd=place).stdout
    assert (place / "runs/cartpole/one-again-2").is_dir()
    assert "exists already" in shoal("reproduce", "cartpole/one", "--trial", "one-again", cwd=place).stderr


@pytest.mark.parametrize("shape", ["actors", "trainers"])
def test_several_processes(tmp_path: Path, shape: str) -> None:
    """All that actors and trainers say is compared."""
    words = ("train", "cartpole", "--trial", "two", *QUICK, "stop.updates=4", f"placement.{shape}=2")
    assert shoal(*words, cwd=tmp_path).returncode == 0
    done = shoal("reproduce", "cartpole/two", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("equal: 4 rows of cartpole/two and cartpole/two-again")
    assert done.stdout.splitlines()[-1].endswith("not compared: time/, rows/")


def test_a_number_that_is_not_the_same(place: Path) -> None:
    run = place / "runs/cartpole/one"
    lines = rows(run)
    true, lines[1]["train/loss"] = lines[1]["train/loss"], 0.5
    write_rows(run, lines)
    done = shoal("reproduce", "cartpole/one", "--trial", "two", cwd=place)
    assert done.returncode == 1
    said = f"cartpole/one and cartpole/two differ first in row 2 (update 2), train/loss: 0.5 then, {true} now"
    assert done.stderr.splitlines()[-1] == f"shoal: {said}"


def test_parameters_that_are_not_the_same(place: Path) -> None:
    """Equal rows do not do: another seed's checkpoint under them is found."""
    words = ("train", "cartpole", "--trial", "other", "--on", "inline", *QUICK, "stop.updates=3", "seed=8")
    assert shoal(*words, cwd=place).returncode == 0
    shutil.rmtree(place / "runs/cartpole/one/checkpoints")
    shutil.copytree(place / "runs/cartpole/other/checkpoints", place / "runs/cartpole/one/checkpoints")
    done = shoal("reproduce", "cartpole/one", cwd=place)
    assert done.returncode == 1
    assert "cartpole/one and cartpole/one-again differ in version 3: agent/" in done.stderr


def test_a_run_that_was_stopped_by_hand(place: Path) -> None:
    run = place / "runs/cartpole/one"
    write_rows(run, rows(run)[:2])
    events = (run / "events.jsonl").read_text().replace("stop.updates = 3 reached", "stopped by order")
    (run / "events.jsonl").write_text(events)
    done = shoal("reproduce", "cartpole/one", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "reproducing cartpole/one --on inline, until update 2\n" in done.stdout
    assert "equal: 2 rows of cartpole/one and cartpole/one-again, bit for bit" in done.stdout
    assert len(rows(place / "runs/cartpole/one-again")) == 2


def test_a_run_that_was_resumed(place: Path) -> None:
    words = ("train", "cartpole", "--trial", "one", "--on", "inline", "--resume", "stop.updates=5")
    assert shoal(*words, cwd=place).returncode == 0
    done = shoal("reproduce", "cartpole/one", cwd=place)
    assert "until update 5" in done.stdout
    assert "it was resumed at update 3" in done.stdout
    assert len(rows(place / "runs/cartpole/one-again")) == 5
    assert "equal: 5 rows of cartpole/one and cartpole/one-again, and version 5" in done.stdout
    assert done.returncode == 0


def test_a_difference_after_a_resume_says_so(place: Path) -> None:
    words = ("train", "cartpole", "--trial", "one", "--on", "inline", "--resume", "stop.updates=4", "algorithm.lr=1e-5")
    assert shoal(*words, cwd=place).returncode == 0
    run = place / "runs/cartpole/one"
    settings = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(settings.replace("lr: 1.0e-05", "lr: 0.004"))
    assert settings != (run / "config.yaml").read_text()
    done = shoal("reproduce", "cartpole/one", cwd=place)
    assert done.returncode == 1
    assert "row 4 (update 4)" in done.stderr
    assert "(after it was resumed at update 3)" in done.stderr


def test_what_changed_is_said_aloud(place: Path) -> None:
    path = place / "runs/cartpole/one/provenance.json"
    record = json.loads(path.read_text())
    record["versions"]["gymnasium"] = record["packages"]["gymnasium"] = "0.1"
    record["machine"]["cpu_model"] = "Abacus"
    path.write_text(json.dumps(record))
    done = shoal("reproduce", "cartpole/one", cwd=place)
    assert done.returncode == 0
    assert "shoal: warning: gymnasium: 0.1 then, " in done.stderr
    assert "shoal: warning: machine, cpu_model: Abacus then, " in done.stderr
    path.unlink()
    done = shoal("reproduce", "cartpole/one", cwd=place)
    assert "provenance.json is missing or damaged" in done.stderr
    assert "--on local" in done.stdout


def test_older_records_tell_the_launcher_by_their_command(place: Path) -> None:
    path = place / "runs/cartpole/one/provenance.json"
    record = json.loads(path.read_text())
    del record["launcher"]
    for command, launcher in ((["shoal", "train", "--on=inline"], "inline"), (["shoal", "train"], "local")):
        path.write_text(json.dumps({**record, "command": command}))
        assert f"--on {launcher}\n" in shoal("reproduce", "cartpole/one", cwd=place).stdout


def test_a_run_that_is_not_exact(place: Path) -> None:
    words = ("train", "cartpole", "--trial", "loose", *QUICK, "placement.trainers=1", "placement.exact=false")
    assert shoal(*words, cwd=place).returncode == 0
    done = shoal("reproduce", "cartpole/loose", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "not compared: cartpole/loose is no exact run" in done.stdout
    assert "equal" not in done.stdout


def test_wrong_words(place: Path) -> None:
    assert "there is no run 'cartpole/none'" in refused("reproduce", "cartpole/none", cwd=place)
    assert "--trial = '../x' cannot name a folder" in refused("reproduce", "cartpole/one", "--trial", "../x", cwd=place)
    assert "--on moon: there is no such launcher" in refused("reproduce", "cartpole/one", "--on", "moon", cwd=place)
    (place / "runs/cartpole/one/metrics.jsonl").write_text("")
    assert "cartpole/one has no rows of numbers yet" in refused("reproduce", "cartpole/one", cwd=place)
