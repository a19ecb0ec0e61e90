"""kill -9 of a whole population, at writes of its journal and at any moment: it goes on, and ends with the bits of one that
nobody touched."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shoal.population.folder import PopulationFolder
from tests.population.small import learned, rows

ROOT = Path(__file__).parents[2]
PATIENCE = 240
"""Seconds: a busy machine takes its time to start Python."""


def start(root: Path, kind: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.population.killed", str(root), kind, *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(root: Path, kind: str) -> Path:
    done = start(root, kind)
    said, wrong = done.communicate(timeout=PATIENCE)
    assert done.returncode == 0, wrong
    assert said.startswith("all ")
    return root / kind


def compare(one: Path, two: Path) -> None:
    """Parameters, rows, and all decisions but for when and how long."""
    assert rows(one) == rows(two)
    assert learned(one) == learned(two)
    assert decisions(one) == decisions(two)


def decisions(folder: Path) -> list[dict[str, object]]:
    kinds = ("member", "compared")
    return [line for line in PopulationFolder(folder).journal.read() if line["kind"] in kinds]


def killed_at_writes(tmp_path: Path, kind: str, writes: list[int], how: str) -> None:
    """One population, killed at one write after the other: of each start, the so-many-th."""
    whole = finish(tmp_path / "whole", kind)
    for write in writes:
        process = start(tmp_path / "cut", kind, str(write), how)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL
    compare(whole, finish(tmp_path / "cut", kind))


@pytest.mark.slow
def test_a_sweep_killed_at_writes_goes_on(tmp_path: Path) -> None:
    killed_at_writes(tmp_path, "sweep", [2, 4], "torn")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pbt", "pb2"])
def test_a_population_killed_between_copies_goes_on(tmp_path: Path, kind: str) -> None:
    """The comparison is on the disk and nothing was copied yet; then between two copies; then in the next round."""
    killed_at_writes(tmp_path, kind, [11, 2, 5], "after")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("how", ["before", "torn", "after"])
def test_killed_at_every_write(tmp_path: Path, how: str) -> None:
    """One start per write: each is a fresh population that dies there, then goes on."""
    whole = finish(tmp_path / "whole", "pbt")
    write = 0
    while True:
        write += 1
        root = tmp_path / f"cut-{write}"
        process = start(root, "pbt", str(write), how)
        process.communicate(timeout=PATIENCE)
        if process.returncode == 0:
            break
        compare(whole, finish(root, "pbt"))
    print(f"killed {how} each of {write - 1} writes")
    assert write > 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["sweep", "pbt"])
def test_killed_at_random_moments(tmp_path: Path, kind: str) -> None:
    whole = finish(tmp_path / "whole", kind)
    drawn, kills = random.Random(7), 0
    for number in range(50):
        root = tmp_path / f"cut-{number % 10}"
        process = start(root, kind)
        try:
            process.communicate(timeout=drawn.uniform(0.5, 8.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
        time.sleep(0.1)
    for number in range(10):
        compare(whole, finish(tmp_path / f"cut-{number}", kind))
    print(f"{kills} kills")
    assert kills >= 10
