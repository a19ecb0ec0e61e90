"""A disk that is full ends a run with one line, and nothing else is said."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal
from shoal.base.errors import ShoalError
from shoal.base.files import disk_trouble
from shoal.monitoring.logs import LOG, log_to
from tests.launchers.live import experiment


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system may be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, room: int = 0) -> None:
    """Leave so many bytes."""
    size = shutil.disk_usage(disk).free - room
    with (disk / "filling").open("wb") as file:
        file.write(bytes(size))


def test_a_log_that_cannot_be_written_hides_no_error(disk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with log_to(disk / "logs", "local"):
            fill(disk)
            LOG.info("x" * 10_000)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("room", [0, 16, 32, 64])
def test_a_run_ends_with_one_line(disk: Path, capfd: pytest.CaptureFixture[str], room: int) -> None:
    """Wherever it happens to be when the disk is full: at its settings, its rows of numbers or its checkpoint."""
    fill(disk, room << 10)
    tree = experiment(stop={"updates": 200}, checkpoint={"every": "1s"})
    with pytest.raises(ShoalError, match=r"^[^\n]*No space left on device[^\n]*$"):
        shoal.train(tree, root=disk / "runs", on="inline", quiet=True)
    assert capfd.readouterr() == ("", "")


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), disk_trouble(tmp_path):
        os.stat(tmp_path / "nothing")
