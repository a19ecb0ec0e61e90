"""Jobs under a real Slurm: trained to the end, warned, preempted, cancelled; and what each leaves behind."""

from __future__ import annotations

import contextlib
import io
import json
import re
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.cli import main
from shoal.launchers.slurm import script
from shoal.runs.train import LAUNCHERS
from tests.cluster.real_slurm import RealSlurm, slurm, wait_until

__all__ = ["slurm"]
pytestmark = pytest.mark.timeout(900)  # each of a job's slots starts Ray on two nodes

Shoal = Callable[..., str]
ROOT = Path(__file__).parents[2]
TWO_NODES = ("--nodes", "2", "--cpus-per-node", "2")
ENDLESS = ("stop.steps=1_000_000_000", "stop.return=null", "checkpoint.every=1s")
PATIENCE = 180


@pytest.fixture
def shoal(slurm: RealSlurm, in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shoal]:
    """The command, in an empty folder and under that Slurm; gives what it prints. No job outlives its test."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    if "ray" not in LAUNCHERS:
        monkeypatch.setattr(script, "LAUNCHER", "--on local")

    def call(*words: str, code: int = 0) -> str:
        out = io.StringIO()
        monkeypatch.setattr(sys, "argv", ["shoal", *words])
        ended: int | str | None = 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                main()
            except SystemExit as end:
                ended = end.code
        assert (ended or 0) == code, out.getvalue()
        return out.getvalue()

    yield call
    slurm.clear()


def submit(shoal: Shoal, trial: str, *words: str) -> int:
    said = shoal("slurm", "submit", "cartpole", "--trial", trial, *words)
    found = re.search(r"job (\d+) trains cartpole/(\S+) ", said)
    assert found is not None, said
    assert found[2] == trial
    return int(found[1])


def output(trial: str) -> str:
    path = Path("runs/.slurm/cartpole") / trial / "output.log"
    return path.read_text() if path.exists() else ""


def events(trial: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(f"runs/cartpole/{trial}/events.jsonl").read_text().splitlines()]


def wait_for_training(trial: str, times: int = 1) -> None:
    """Until a checkpoint of its n-th start is there."""

    def trained() -> bool:
        with contextlib.suppress(OSError, ValueError):
            starts = [event for event in events(trial) if event["kind"] == "start"]
            versions = [int(path.name) for path in Path(f"runs/cartpole/{trial}/checkpoints").glob("[0-9]*")]
            return len(starts) >= times and any(version > int(str(starts[-1]["version"])) for version in versions)
        return False

    wait_until(trained, PATIENCE, f"checkpoint of start {times}:\n{output(trial)}")


def wait_for_state(slurm: RealSlurm, number: int, trial: str, *states: str) -> None:
    wait_until(lambda: slurm.state(number) in states, PATIENCE, f"{states}:\n{output(trial)}")


def assert_nothing_left(slurm: RealSlurm, number: int, trial: str) -> None:
    wait_until(lambda: not slurm.processes(number), 5, "end of the job's processes")
    assert not list(Path("/tmp").glob(f"shoal-{number}.*"))
    assert not list(Path(f"runs/.slurm/cartpole/{trial}").glob("job-*/"))
    host, port = re.findall(r"Ray at ([\d.]+):(\d+)", output(trial))[-1]
    with pytest.raises(OSError, match="refused"), socket.create_connection((host, int(port)), timeout=5):
        pass


# ---------------------------------------------------------------- without Ray: seconds


def test_slurm_s_complaint_is_passed_on(shoal: Shoal) -> None:
    said = shoal("slurm", "submit", "cartpole", "--partition", "nowhere", code=2)
    assert said.startswith("shoal: sbatch: invalid partition specified: nowhere; ")
    assert said.count("\n") == 1


def test_a_job_that_waits(slurm: RealSlurm, shoal: Shoal) -> None:
    """More CPUs than are up: it pends, and is cancelled at once."""
    slurm.ask("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
    try:
        number = submit(shoal, "waits", *TWO_NODES)
        assert re.search(rf"^{number} +cartpole/waits +PENDING", shoal("slurm", "status"), re.MULTILINE)
        assert "has printed nothing yet: PENDING" in shoal("slurm", "logs", "cartpole/waits")
        said = shoal("slurm", "submit", "cartpole", "--trial", "waits", code=2)
        assert f"job {number} trains cartpole/waits already" in said
        assert shoal("slurm", "cancel", str(number)) == f"job {number} of cartpole/waits is cancelled\n"
        assert json.loads(shoal("slurm", "status", "cartpole/waits", "--json"))[0]["state"] == "CANCELLED"
        assert "is not running: CANCELLED" in shoal("slurm", "cancel", code=1)
    finally:
        slurm.ask("scontrol", "update", "NodeName=n2", "State=RESUME")


# ---------------------------------------------------------------- with Ray on both nodes


@pytest.mark.slow
def test_a_job_trains_to_its_end_and_leaves_nothing(slurm: RealSlurm, shoal: Shoal) -> None:
    number = submit(shoal, "whole", *TWO_NODES, "stop.updates=2", "stop.return=null")
    token = Path(f"runs/.slurm/cartpole/whole/job-{number}/token")
    wait_until(token.exists, PATIENCE, "token")
    assert (token.stat().st_mode & 0o777, token.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    wait_until(lambda: "Ray at" in output("whole"), PATIENCE, "Ray")
    assert {path.stat().st_mode & 0o777 for path in Path("/tmp").glob(f"shoal-{number}.*")} == {0o700}
    wait_for_state(slurm, number, "whole", "COMPLETED", "FAILED")
    said = shoal("slurm", "logs", "cartpole/whole")
    assert slurm.state(number) == "COMPLETED", said
    assert re.search(r"Ray at \S+: 2 nodes, 4 CPUs, 0 GPUs\n", said)
    assert "stop.updates = 2 reached" in said
    assert "error" not in said
    assert_nothing_left(slurm, number, "whole")


@pytest.mark.slow
def test_a_warned_job_is_requeued_and_goes_on(slurm: RealSlurm, shoal: Shoal, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Slurm does before the time limit; then the second slot is cancelled."""
    monkeypatch.setenv("LD_PRELOAD", "libc.so.6")
    number = submit(shoal, "warned", *TWO_NODES, *ENDLESS)
    wait_for_training("warned")
    running = slurm.processes(number)
    raylets = [pid for pid in running if b"raylet/raylet" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(raylets) == 2
    assert "libc.so.6" not in [running[pid].get("LD_PRELOAD") for pid in raylets]
    slurm.ask("scancel", "--batch", "--signal=USR1", str(number))
    wait_for_state(slurm, number, "warned", "PENDING")
    assert events("warned")[-1]["reason"] == "interrupted by SIGTERM"
    assert_nothing_left(slurm, number, "warned")

    before = events("warned")[-1]["steps"]
    slurm.start_soon(number)
    wait_for_training("warned", times=2)
    resumed = [event for event in events("warned") if event["kind"] == "start"][-1]
    assert resumed["resumed"]
    assert "is told to save a checkpoint and end" in shoal("slurm", "cancel", "cartpole/warned")
    wait_for_state(slurm, number, "warned", "CANCELLED")
    assert events("warned")[-1]["reason"] == "interrupted by SIGTERM"
    assert int(str(events("warned")[-1]["steps"])) > int(str(before))
    assert_nothing_left(slurm, number, "warned")


@pytest.mark.slow
@pytest.mark.parametrize("order", [("scontrol", "requeue"), ("scancel", "--signal=TERM")], ids=["job", "steps"])
def test_a_preempted_job_goes_on(slurm: RealSlurm, shoal: Shoal, order: tuple[str, ...]) -> None:
    """Slurm ends all of the job at once; or, in the grace time before, the steps with the other Ray nodes."""
    number = submit(shoal, "taken", *TWO_NODES, *ENDLESS)
    wait_for_training("taken")
    slurm.ask(*order, str(number))
    wait_for_state(slurm, number, "taken", "PENDING")
    assert_nothing_left(slurm, number, "taken")
    slurm.start_soon(number)
    wait_for_training("taken", times=2)
    assert [event["resumed"] for event in events("taken") if event["kind"] == "start"] == [False, True]
    assert "is cancelled" in shoal("slurm", "cancel", "--now")
    wait_for_state(slurm, number, "taken", "CANCELLED")
    assert_nothing_left(slurm, number, "taken")


@pytest.mark.slow
def test_nodes_with_gpus_and_nodes_without(slurm: RealSlurm, shoal: Shoal) -> None:
    parts = (
        "--nodes",
        "1",
        "--cpus-per-node",
        "2",
        "--gpu-nodes",
        "1",
        "--gpus-per-node",
        "1",
        "--cpus-per-gpu-node",
        "1",
    )
    number = submit(shoal, "mixed", *parts, "stop.updates=2", "stop.return=null")
    wait_for_state(slurm, number, "mixed", "COMPLETED", "FAILED")
    assert slurm.state(number) == "COMPLETED", output("mixed")
    assert re.search(r"Ray at \S+: 2 nodes, 3 CPUs, 1 GPUs\n", output("mixed"))
    assert_nothing_left(slurm, number, "mixed")


@pytest.mark.slow
def test_a_training_that_fails_fails_the_job(slurm: RealSlurm, shoal: Shoal) -> None:
    number = submit(shoal, "wrong", *TWO_NODES, "env.id=tests.launchers.broken:raising")
    wait_for_state(slurm, number, "wrong", "COMPLETED", "FAILED")
    assert slurm.state(number) == "FAILED"
    assert "after 50 steps" in output("wrong")
    assert_nothing_left(slurm, number, "wrong")
    assert list(Path("runs/.slurm/cartpole/wrong").glob("ray-n[12]/gcs_server.out"))
