"""A Ray of our own, for `--on ray` without an address: nobody else may enter it, and nothing is left of it, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hosts import Host
from test_ray_runs import ENDLESS, SHOAL, lines, until

from shoal.checkpoints.store import CheckpointStore
from shoal.launchers.ray.private import TOKEN, exposed

pytestmark = [pytest.mark.usefixtures("_has_ray"), pytest.mark.timeout(400), pytest.mark.slow]


class OwnRay(NamedTuple):
    """A run that learns, on a machine where nothing else runs."""

    host: Host
    driver: subprocess.Popen[str]
    run: Path
    log: Path
    folder: Path
    """Of its Ray."""

    def process(self, words: bytes) -> int:
        (found,) = [pid for pid in self.host.processes() if words in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return found

    def ended(self) -> bool:
        return not self.host.processes() and not self.folder.exists()


@pytest.fixture
def own_ray(_has_ray: None, tmp_path: Path) -> Iterator[OwnRay]:
    host = Host("alone", shm=512 << 20)
    run, log = tmp_path / "runs" / "cartpole" / "own", tmp_path / "driver.log"
    argv = [*SHOAL, "train", "cartpole", "--on", "ray", "--trial", "own", *ENDLESS, "placement.actors=2"]
    env = {name: value for name, value in os.environ.items() if name not in TOKEN}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    with open(log, "w") as out:
        driver = subprocess.Popen(host.inside(argv, tmp_path), stdout=out, stderr=out, text=True, env=env)
    try:
        until(lambda: driver.poll() is not None or CheckpointStore(run / "checkpoints").versions(), "a checkpoint", 240)
        assert driver.poll() is None, log.read_text()
        commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in host.processes()]
        (folder,) = {found[1] for line in commands if (found := re.search(r"=(/[^=]*)/r/session_\S*/raylet\b", line))}
        yield OwnRay(host, driver, run, log, Path(folder))
    finally:
        host.kill()
        driver.wait(30)


def test_nobody_else_may_enter_and_a_killed_driver_leaves_nothing(own_ray: OwnRay) -> None:
    assert own_ray.folder.stat().st_mode & 0o777 == 0o700
    (session,) = (own_ray.folder / "r").glob("session_2*")
    assert session.stat().st_mode & 0o777 == 0o777, "Ray opens its own folders: who may enter is decided above them"
    assert exposed(session) is None
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "ls", str(session)]
    assert subprocess.run(nobody, capture_output=True).returncode != 0
    os.kill(own_ray.process(b"shoal.cli"), signal.SIGKILL)
    until(own_ray.ended, f"no process, and no {own_ray.folder}", 20)


def test_a_lost_gcs_is_one_line_after_a_checkpoint(own_ray: OwnRay) -> None:
    saved = max(CheckpointStore(own_ray.run / "checkpoints").versions())
    os.kill(own_ray.process(b"gcs_server"), signal.SIGKILL)
    assert own_ray.driver.wait(120) == 1
    said = own_ray.log.read_text().splitlines()
    assert said[-1].startswith("shoal: Ray's head at "), said
    assert said[-1].endswith(", so cartpole/own was stopped: go on with --resume")
    assert not [line for line in said if "rpc_client" in line or "GCS" in line], said
    until(own_ray.ended, f"no process, and no {own_ray.folder}", 20)
    assert (own_ray.run / "logs" / "ray" / "gcs_server.out").exists(), "what Ray said is kept"
    assert lines(own_ray.run / "events.jsonl")[-1]["reason"] == "stopped by order"
    assert max(CheckpointStore(own_ray.run / "checkpoints").versions()) > saved
