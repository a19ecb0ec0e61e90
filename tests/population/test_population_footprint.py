"""Members that wait are checkpoints, not processes: sixteen take as many processes as two, and little memory."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from shoal.base.descendants import below, kill_tree
from shoal.population.folder import PopulationFolder

LEAST, MOST = 2, 16
GIGABYTES = 4.0


class Footprint(NamedTuple):
    processes: int
    """That lasted for half a second at least: `git`, which says where a run comes from, comes and goes."""
    resident: float
    """Gigabytes, what processes share counted for each."""


def resident(pid: int) -> float:
    with suppress(OSError, ValueError):  # it ended meanwhile
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        return int(fields[1]) * 4096 / 1e9
    return 0.0


def footprint(folder: Path, members: int) -> Footprint:
    """The most at any moment of the command and all below it."""
    words = [f"population.members={members}", "population.every=3_000 steps", "stop.steps=9_000", f"name=of-{members}"]
    command = [sys.executable, "-m", "shoal.cli", "train", "lunarlander-pbt", "--parallel", "2", *words]
    counts: list[int] = []
    most = 0.0
    with open(folder / "log", "w") as out:
        run = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out)
    try:
        while run.poll() is None:
            everybody = {run.pid, *below(run.pid)}
            counts.append(len(everybody))
            most = max(most, sum(map(resident, everybody)))
            time.sleep(0.1)
    finally:
        kill_tree(run.pid)
    assert run.returncode == 0, (folder / "log").read_text()
    state = PopulationFolder(folder / "runs" / f"of-{members}").state()
    assert [member.state for member in state.members.values()] == ["ended"] * members
    return Footprint(max(min(counts[i : i + 5]) for i in range(len(counts) - 4)), most)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sixteen_members_take_the_processes_of_two(tmp_path: Path) -> None:
    pytest.importorskip("Box2D", reason="`shoal[box2d]` is not installed")
    few, many = footprint(tmp_path, LEAST), footprint(tmp_path, MOST)
    print(f"\n{LEAST} members: {few}; {MOST} members: {many}")
    assert many.processes == few.processes
    assert many.resident <= GIGABYTES
