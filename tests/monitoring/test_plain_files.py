"""Files of a run are regular, private and of a bounded size; folders that all processes know by name are this user's."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import stat
import tempfile
from pathlib import Path

import pytest

from shoal.base.errors import InputError, ShoalError
from shoal.base.files import make_folder, plain_file, private_folder
from shoal.monitoring.jsonl import append_line, in_order
from shoal.monitoring.logs import LOG, LONGEST, log_to
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.sinks import JsonlSink
from shoal.runs.panel import NotRunningError
from shoal.runs.status import ended, obey

pytestmark = pytest.mark.timeout(30)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def _open_to_all() -> None:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_to_all")
def test_new_folders_are_private_and_old_ones_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(0o755)
    make_folder(tmp_path / "shared" / "runs" / "one")
    modes = [mode(tmp_path / "shared" / each) for each in (".", "runs", "runs/one")]
    assert modes == [0o755, 0o700, 0o700]


# ---------------------------------------------------------------- the folder for logs of machines without the run's


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("_open_to_all")
def test_the_folder_for_logs_is_this_users(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = private_folder("shoal-logs")
    assert (first.parent, mode(first), private_folder("shoal-logs")) == (temporary, 0o700, first)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(ShoalError, match="is not a folder of yours alone"):
        private_folder("shoal-logs")  # it is made by us, so it is not of 4711
    assert (temporary / "shoal-logs-4711").exists(), "and not the first one's"


def test_a_folder_for_logs_that_others_made_is_not_taken(temporary: Path) -> None:
    path = temporary / f"shoal-logs-{os.getuid()}"
    (temporary / "elsewhere").mkdir(0o700)
    path.symlink_to(temporary / "elsewhere")
    with pytest.raises(ShoalError, match="is not a folder of yours alone: remove it, or set TMPDIR"):
        private_folder("shoal-logs")
    path.unlink()
    path.mkdir()
    path.chmod(0o777)
    with pytest.raises(ShoalError, match="is not a folder of yours alone"):
        private_folder("shoal-logs")


# ---------------------------------------------------------------- pipes, devices and links


@pytest.mark.parametrize("name", ["metrics.jsonl", "events.jsonl"])
def test_numbers_and_events_from_a_pipe_are_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ShoalError, match=rf"{name} cannot be read \(it is no regular file\): restore it or remove it"):
        ended(RunFolder(tmp_path))
    with pytest.raises(ShoalError, match=rf"{name} cannot be written \(it is no regular file\)"):
        JsonlSink(tmp_path / name)
    with pytest.raises(ShoalError, match=rf"{name} cannot be written \(it is no regular file\)"):
        append_line(tmp_path / name, {})


def test_a_device_and_a_link_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "aim")
    for path in (tmp_path / "link", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="it is no regular file"):
            plain_file(path, os.O_RDONLY)
    with pytest.raises(OSError, match="it is no regular file"):
        plain_file(tmp_path / "link", os.O_WRONLY | os.O_CREAT)
    assert not (tmp_path / "aim").exists()


def test_a_lock_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".lock")
    folder = RunFolder(tmp_path)
    with pytest.raises(ShoalError, match=r"cannot be locked \(it is no regular file\)"):
        folder.lock()
    assert (folder.owner, folder.locked) == ("(not known yet)", False)


def test_gigantic_numbers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b"")
    os.truncate(tmp_path / "metrics.jsonl", 200 << 30)
    with pytest.raises(ShoalError, match="has a line of more than 16 MB"):
        in_order(tmp_path / "metrics.jsonl")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [x, x]\nb: &b [*a, *a]\n", "holds an alias"),
        ("a: " + "[" * 10_000, "is not valid YAML"),
        ("\udcff", "is not valid YAML"),
    ],
)
def test_settings_that_no_run_kept_are_refused(tmp_path: Path, text: str, said: str) -> None:
    folder = RunFolder(tmp_path)
    folder.config.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=said):
        folder.read_config()


def test_gigantic_settings_are_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.config.touch()
    os.truncate(folder.config, 200 << 30)
    with pytest.raises(InputError, match="more than 64 MB"):
        folder.read_config()


# ---------------------------------------------------------------- long texts, lost sockets


def test_a_long_error_is_shortened(tmp_path: Path) -> None:
    said = "begin" + "x" * 10_000_000 + "end"
    with contextlib.suppress(RuntimeError), log_to(tmp_path / "logs", "inline"):
        LOG.error(said)
        raise RuntimeError(said)
    RunFolder(tmp_path).event("fault", cause=said)
    text = (tmp_path / "logs" / "inline.log").read_text()
    (event,) = (json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines())
    assert len(text) < 3 * LONGEST
    assert "characters] ... xxx" in text
    assert text.rstrip().endswith("xend")
    assert len(event["cause"]) < 2 * LONGEST
    assert event["cause"].startswith("beginxx")
    assert logging.getLogger("shoal").handlers == []


def test_a_run_whose_socket_is_gone_is_not_taken_for_ended(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.lock()
    folder.event("start")
    with pytest.raises(
        ShoalError, match=f"is being trained by process {os.getpid()} and cannot be asked, as control.sock"
    ):
        obey(folder, "status")
    folder.event("stop", reason="stop.steps = 1 reached")  # it is about to let go of the lock
    with pytest.raises(NotRunningError):
        obey(folder, "status")
    folder.unlock()
    assert not folder.locked
