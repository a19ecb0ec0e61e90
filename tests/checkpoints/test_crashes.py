"""Killed, or failed by the disk, at every system call of saving, tagging, pruning and going back."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.checkpoints.faults import count_calls, live, prepare, problems, works

pytestmark = pytest.mark.skipif(not works(), reason="strace is not installed, or may not trace: make system-packages")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with version 1."""
    folder = tmp_path_factory.mktemp("template") / "checkpoints"
    prepare(folder)
    return folder


@pytest.fixture(scope="module")
def calls(template: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int]]:
    """Every system call of an undisturbed life: its name, and the how manieth of that name it is.

    Of three lives the fewest: the interpreter may open a file of its own now and then, after which ours are numbered otherwise.
    """
    lives = []
    for _ in range(3):
        folder = tmp_path_factory.mktemp("undisturbed") / "checkpoints"
        ending = live(template, folder, [])
        assert (ending.status, ending.said) == (0, "")
        assert list(problems(folder, ending)) == []
        lives.append(count_calls(ending.log))
    counts = {name: min(life.get(name, 0) for life in lives) for name in lives[0]}
    assert {"openat", "write", "fsync", "rename", "mkdir", "unlink", "unlinkat"} <= counts.keys(), counts
    return [(name, number) for name, count in counts.items() for number in range(1, count + 1)]


def kill_at(chosen: list[tuple[str, int]], template: Path, place: Path) -> None:
    failures, killed = [], 0
    for name, number in chosen:
        folder = place / "checkpoints"
        ending = live(template, folder, ["-e", f"inject={name}:signal=KILL:when={number}"])
        killed += os.WIFSIGNALED(ending.status) and os.WTERMSIG(ending.status) == signal.SIGKILL
        failures += [f"killed at {name} {number}: {problem}" for problem in problems(folder, ending)]
        shutil.rmtree(folder)
    print(f"{killed} kills at {len(chosen)} system calls, {len(failures)} failures")
    assert failures == []
    assert killed == len(chosen)


def fail_at(chosen: list[tuple[str, int]], template: Path, place: Path, error: str, more: str = "") -> None:
    failures, refused = [], 0
    text = os.strerror(getattr(errno, error))
    for name, number in chosen:
        folder = place / "checkpoints"
        ending = live(template, folder, ["-e", f"inject={name}:error={error}:when={number}{more}"])
        at = f"{error} from {name} {number}{more}"
        code = os.waitstatus_to_exitcode(ending.status)
        if code not in (0, 3) or (code == 3 and (text not in ending.said or "\n" in ending.said)):
            failures.append(f"{at}: exit code {code}, {ending.said}")
        refused += code == 3
        failures += [f"{at}: {problem}" for problem in problems(folder, ending)]
        shutil.rmtree(folder)
    print(f"{error}{more} at {len(chosen)} system calls: {refused} refused in one line, {len(failures)} failures")
    assert failures == []
    assert refused > len(chosen) * 0.3


def strided(calls: list[tuple[str, int]], count: int, first: int) -> list[tuple[str, int]]:
    """`count` of them, spread over all."""
    return calls[first :: max(1, len(calls) // count)]


def test_killed_at_some_system_calls(calls: list[tuple[str, int]], template: Path, tmp_path: Path) -> None:
    kill_at(strided(calls, 25, 3), template, tmp_path)


@pytest.mark.parametrize(("error", "more"), [("ENOSPC", "+"), ("EIO", "")])
def test_failed_by_the_disk_at_some(
    calls: list[tuple[str, int]], template: Path, tmp_path: Path, error: str, more: str
) -> None:
    writing = [call for call in calls if call[0] in ("write", "fsync", "mkdir")] if more else calls
    fail_at(strided(writing, 8, 2), template, tmp_path, error, more)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_at_every_system_call(calls: list[tuple[str, int]], template: Path, tmp_path: Path) -> None:
    kill_at(calls, template, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_failed_by_the_disk_at_every(calls: list[tuple[str, int]], template: Path, tmp_path: Path, error: str) -> None:
    fail_at(calls, template, tmp_path, error)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_the_disk_stays_full(calls: list[tuple[str, int]], template: Path, tmp_path: Path, error: str) -> None:
    """From some call on, all of that name fail."""
    fail_at([call for call in calls if call[0] in ("write", "fsync", "mkdir")], template, tmp_path, error, "+")
