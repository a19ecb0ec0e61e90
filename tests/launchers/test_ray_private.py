"""The folder of a Ray: closed to others, short enough for sockets, gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="an extra: pip install 'shoal[cluster]'")

from shoal.launchers.ray.private import SHORT, TOKEN, exposed, own_folder

HOLD = """
import subprocess, sys
from shoal.launchers.ray.private import own_folder
with own_folder() as folder:
    log = open(folder / "worker.log", "w")
    worker = subprocess.Popen(["sleep", "600"], stdout=log, start_new_session=True)
    print(folder, worker.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """As `/tmp/ray` is: below the temporary directory, and all may write."""
    folder = Path(tempfile.mkdtemp(prefix="open-", dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_a_ray_of_our_own_lets_nobody_else_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TOKEN:
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    with own_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert exposed(folder / "tmp") is None
        token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
        assert token.parent == folder
        assert token.stat().st_mode & 0o777 == 0o600
        assert len(token.read_text()) == 64
        assert os.environ["TMPDIR"] == str(folder / "tmp")
    assert not folder.exists()
    assert dict(os.environ) == before


def test_a_token_that_is_there_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "given")
    with own_folder() as folder:
        assert not (folder / "token").exists()
        assert os.environ["RAY_AUTH_TOKEN"] == "given"


def test_its_sockets_have_room_wherever_temporary_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(str(tmp_path)) > SHORT
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with own_folder() as folder:
        assert folder not in Path(tempfile.gettempdir()).parents, "this process goes on without it"
        socket = folder / "r" / "session_2026-11-17_12-00-00_123456_1234567" / "sockets" / "plasma_store"
        assert len(str(socket)) <= 107
    longest = "x" * (SHORT - len("/tmp/"))
    assert len(str(socket).replace("/tmp/", f"/tmp/{longest}/")) <= 107


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_it_when_its_driver_is_killed(how: signal.Signals) -> None:
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        folder, worker = driver.stdout.readline().split()
        assert Path(folder).is_dir()
        driver.send_signal(how)
    deadline = time.monotonic() + 10
    while Path(folder).exists() or _runs(int(worker)):
        assert time.monotonic() < deadline, f"{folder} or {worker} is still there"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_what_others_can_change_is_found(open_folder: Path) -> None:
    ray = open_folder / "ray"
    ray.mkdir()
    ray.chmod(0o777)
    assert exposed(ray) == open_folder
    open_folder.chmod(0o755)
    assert exposed(ray) == ray, "Ray opens its own folder"
    ray.chmod(0o700)
    assert exposed(ray) == ray, "and opens it again when it starts a worker"
    open_folder.chmod(0o700)
    assert exposed(ray) is None
    (open_folder / "link").symlink_to("/tmp")
    assert exposed(open_folder / "link") == Path("/tmp"), "a link leads elsewhere"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of somebody else")
def test_a_folder_that_somebody_else_made_first_is_theirs(open_folder: Path) -> None:
    open_folder.chmod(0o700)
    os.chown(open_folder, 65534, 65534)
    assert exposed(open_folder / "ray") == open_folder
