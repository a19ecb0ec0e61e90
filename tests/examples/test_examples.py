"""Every example does what it says, in small."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(name: str, *words: str, at: Path, answers: str = "", code: int = 0) -> str:
    """What it prints."""
    command = [sys.executable, str(EXAMPLES / name), "--root", str(at / "runs"), *words]
    clean = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=at, env=clean, input=answers, capture_output=True, text=True, timeout=240)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_a_team_game_by_two_algorithms(tmp_path: Path) -> None:
    pytest.importorskip("pettingzoo")
    said = run("team_game.py", "--steps", "3000", at=tmp_path)
    assert re.search(r"^mappo +\d+\.\d +\d+\.\d$", said, re.MULTILINE)
    assert re.search(r"^qmix +\d+\.\d +\d+\.\d$", said, re.MULTILINE)


@pytest.mark.slow
def test_a_study_draws_what_it_found_and_trains_nothing_twice(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    words = ("--values", "4e-3", "1e-3", "--seeds", "2", "--steps", "4096", "--episodes", "5")
    said = run("study.py", *words, at=tmp_path)
    assert re.search(r"^4e-3 +\d+\.\d +\d+\.\d to \d+\.\d$", said, re.MULTILINE)
    figure = Path(said.splitlines()[-1])
    assert figure.stat().st_size > 10_000
    runs = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/*/metrics.jsonl")}
    assert len(runs) == 4
    assert run("study.py", *words, at=tmp_path) == said
    assert {path: path.stat().st_mtime_ns for path in runs} == runs


@pytest.mark.slow
def test_nim_is_learned_and_can_be_played(tmp_path: Path) -> None:
    pytest.importorskip("pettingzoo")
    said = run("play_nim.py", "--steps", "20000", "--games", "200", at=tmp_path)
    won = int(re.search(r"won (\d+) of 200", said)[1])  # type: ignore[index]
    assert won > 120, "random play wins about half of its games against itself"
    said = run("play_nim.py", "--steps", "512", at=tmp_path, answers="9\n" + "1\n" * 20)
    assert said.rstrip().endswith(("you win", "the policy wins"))


def test_an_algorithm_and_a_model_of_ones_own(tmp_path: Path) -> None:
    said = run("own_algorithm.py", "--steps", "20000", at=tmp_path)
    assert float(re.search(r"greedy return (\d+\.\d)", said)[1]) > 60, said  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize("on", ["inline", "local"])
def test_a_job_that_is_cut_off_goes_on(tmp_path: Path, on: str) -> None:
    words = ("--on", on, "--steps", "150000")
    first = run("cluster_job.py", *words, "--slot", "1", at=tmp_path, code=75)
    assert "not done: start it again" in first
    second = run("cluster_job.py", *words, at=tmp_path)
    before, after = (int(re.search(r": ([\d,]+) of", said)[1].replace(",", "")) for said in (first, second))  # type: ignore[index]
    assert 0 < before < 150_000 <= after
    assert "per agent over 20 greedy episodes" in second


def test_the_list_names_every_example_and_each_is_short() -> None:
    listed = re.findall(r"^\| `(\w+\.py)`", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in EXAMPLES.glob("*.py"))
    for path in EXAMPLES.glob("*.py"):
        assert 50 <= len(path.read_text().splitlines()) <= 150, path.name
