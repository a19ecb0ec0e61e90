"""Folders of agents on Ray: those of agents that were killed are removed by the next that begins or ends; the living keep them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.streams.transports.ray.reports import Reports, remove_abandoned
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard

AGENT = """
import sys, time
from shoal.streams.transports.ray.reports import Reports
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard
reports = Reports(HeartbeatBoard.create(1), print)
print(reports.address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """For temporary files; the addresses of sockets must be short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def test_an_agent_that_ends_removes_what_was_killed_meanwhile(place: Path) -> None:
    board = HeartbeatBoard.create(1)
    reports = Reports(board, print)
    words = [sys.executable, "-c", AGENT]
    killed = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    left = Path(killed.stdout.readline().strip())
    killed.kill()
    killed.communicate()
    assert left.is_socket()
    reports.close()
    board.close()
    assert not list(place.iterdir())


def test_the_next_agent_removes_what_a_killed_one_left(place: Path) -> None:
    words = [sys.executable, "-c", AGENT]
    killed, living = (
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    )
    addresses = [Path(process.stdout.readline().strip()) for process in (killed, living) if process.stdout]
    assert all(address.is_socket() and address.parent.parent == place for address in addresses)
    other = place / "shoal-elsewhere"  # of another kind: a Ray of our own has such folders too
    other.mkdir()
    (place / "shoal-link").symlink_to(other)
    try:
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        board = HeartbeatBoard.create(1)
        reports = Reports(board, print)
        assert not addresses[0].parent.exists()
        assert addresses[1].is_socket()
        assert other.is_dir()
        mine = Path(reports.address)
        remove_abandoned()
        assert mine.is_socket()
        reports.close()
        board.close()
        assert not mine.parent.exists()
    finally:
        living.kill()
        living.communicate()
    remove_abandoned()
    assert {path.name for path in place.iterdir()} == {"shoal-elsewhere", "shoal-link"}
    assert os.path.islink(place / "shoal-link")
