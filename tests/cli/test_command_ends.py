"""How the command ends: when nobody reads what it says, when a thread does not end, when it may open too few files."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal.base.errors import EXIT_DONE, EXIT_WRONG_INPUT, InputError
from shoal.launchers import open_files
from shoal.launchers.open_files import allow_open_files
from shoal.program.expand import expand
from tests.launchers.live import experiment

TRAIN = [sys.executable, "-m", "shoal.cli", "train", "cartpole", "--trial", "a", "stop.updates=2", "stop.return=null"]
ROOT = Path(__file__).parents[2]
ONE_PROCESS = ["placement.trainers=1", "log.tensorboard=false"]


def test_a_run_whose_reader_has_left_goes_on_and_ends_well(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*TRAIN, *ONE_PROCESS], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == f"cartpole: ppo, seed 1 -> {Path('runs/cartpole/a')}\n"
    process.stdout.close()
    with process.stderr:
        assert (process.stderr.read(), process.wait(60)) == ("", EXIT_DONE)
    events = [json.loads(line) for line in (tmp_path / "runs/cartpole/a/events.jsonl").read_text().splitlines()]
    assert events[-1]["reason"] == "stop.updates = 2 reached"


def test_a_thread_of_an_environment_keeps_no_command_from_ending(tmp_path: Path) -> None:
    words = [*TRAIN, *ONE_PROCESS, f"env.id={ROOT / 'tests/launchers/parents.py'}:threaded"]
    known = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(words, cwd=tmp_path, env=known, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (EXIT_DONE, "")
    assert "stop.updates = 2 reached" in ended.stdout


def test_too_few_open_files_are_told_before_anything_starts(tmp_path: Path) -> None:
    ended = subprocess.run(
        ["bash", "-c", 'ulimit -n 64; exec "$@"', "-", *TRAIN, "placement.actors=4"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == EXIT_WRONG_INPUT
    assert ended.stderr.startswith("shoal: 5 processes need ")
    assert "this machine allows 64: `ulimit -n " in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("hard", [10_000, 20])
def test_the_limit_is_raised_as_far_as_that_is_allowed(monkeypatch: pytest.MonkeyPatch, hard: int) -> None:
    program, limits = expand(experiment(placement={"actors": 2})), list[Any]()
    monkeypatch.setattr(open_files.resource, "getrlimit", lambda _: (16, hard))
    monkeypatch.setattr(open_files.resource, "setrlimit", lambda *given: limits.append(given))
    if hard == 20:
        with pytest.raises(InputError, match=r"^3 processes need \d+ open files, and this machine allows 20: "):
            allow_open_files(program)
        assert limits == []
    else:
        allow_open_files(program)
        ((which, (soft, still)),) = limits
        assert (which, still) == (resource.RLIMIT_NOFILE, 10_000)
        assert len(os.listdir("/proc/self/fd")) + 33 < soft < 200  # what a launcher of 3 processes was seen to open
