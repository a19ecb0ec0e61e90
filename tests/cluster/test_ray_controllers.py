"""Where the controller of a run lives, what it needs there, and what becomes of it when its machine is cut off."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nodes import Cluster
from test_ray_faults import cluster, goes_on, machines, rows
from test_ray_runs import ENDLESS, SHOAL, SPREAD, assert_balanced, command, lines, trained, until

from shoal.checkpoints.store import CheckpointStore
from shoal.launchers.ray.private import TRUST

__all__ = ["cluster"]
pytestmark = [pytest.mark.usefixtures("_has_ray"), pytest.mark.timeout(900), pytest.mark.slow]

WORDS = ["placement.actors=3", *SPREAD, "stop.return=null", "checkpoint.every=1s"]


def controllers(cluster: Cluster) -> dict[int, int]:
    """Node -> the process of the controller there."""
    return {
        node: pid
        for node, host in enumerate(cluster.hosts)
        for pid in host.processes()
        if b"ray::RayController" in Path(f"/proc/{pid}/cmdline").read_bytes()
    }


@pytest.mark.parametrize("home", [2, 0])
def test_machines_need_not_share_the_run_folder(cluster: Cluster, tmp_path: Path, home: int) -> None:
    """Only the machine where the command was typed has it; checkpoints travel to the trainer, wherever it is."""
    here = tmp_path / "here"
    here.mkdir()
    others = [node for node in range(3) if node != home]
    for node in others:
        cluster.hosts[node].hide(here)
    killed = {"SHOAL_FAULT": "trainer@update=4:kill"}
    run = trained(cluster, here, "alone", *WORDS, "stop.updates=8", node=home, env=killed)
    assert len(set(machines(run).values())) == 3
    first = rows(run)[-1]["update"]
    argv = command(cluster, "--trial", "alone", "--resume", f"stop.updates={first + 4}")
    done = cluster.run(home, argv, cwd=here, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert rows(run)[-1]["update"] >= first + 4
    assert_balanced(run)
    for node in others:
        assert cluster.run(node, ["ls", str(here)]).stdout == ""


def test_a_ray_that_others_can_write_to_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    for path in (cluster.folder, *map(cluster.closed, range(3))):  # as /tmp: what Ray makes there is open to all
        path.chmod(0o755)
    short = [*WORDS, "stop.updates=2"]
    done = cluster.run(0, command(cluster, "--trial", "open", *short), cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"other users of node0 can write to {cluster.closed(0)}/r, where Ray keeps its session" in done.stderr
    assert not (tmp_path / "runs").exists()
    cluster.closed(0).chmod(0o700)
    done = cluster.run(0, command(cluster, "--trial", "open", *short), cwd=tmp_path, timeout=300)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    others = [f"other users of node{node} can write to {cluster.closed(node)}/r" for node in (1, 2)]
    assert any(other in done.stderr for other in others), done.stderr
    trained(cluster, tmp_path, "trusting", *short, env={TRUST: "1"})
    for node in (1, 2):
        cluster.closed(node).chmod(0o700)
    trained(cluster, tmp_path, "closed", *short)


@pytest.fixture
def away(cluster: Cluster, tmp_path: Path) -> Callable[[], subprocess.Popen[str]]:
    """Start an endless run from the second machine, which is not the head."""

    def start() -> subprocess.Popen[str]:
        with open(tmp_path / "driver.log", "w") as out:
            argv = command(cluster, "--trial", "cut", *ENDLESS, "placement.actors=3", *SPREAD)
            return cluster.spawn(1, argv, cwd=tmp_path, stdout=out, stderr=out)

    return start


def test_the_controllers_machine_is_cut_off(cluster: Cluster, tmp_path: Path, away: Callable[..., Any]) -> None:
    """The new controller waits until the old one has let go of the folder. Each row is written by the one that holds it."""
    driver, run = away(), tmp_path / "runs" / "cartpole" / "cut"
    until(lambda: CheckpointStore(run / "checkpoints").versions() and len(rows(run)) > 1, "a checkpoint", 240)
    ((node, old),) = controllers(cluster).items()
    assert node == 1
    cluster.cut_link(1)
    starts = [event for event in lines(run / "events.jsonl") if event["kind"] == "start"]
    assert len(starts) == 1
    until(lambda: len([e for e in lines(run / "events.jsonl") if e["kind"] == "start"]) == 2, "it resumes", 240)
    assert not Path(f"/proc/{old}").exists(), "the old one was gone before the new one began"
    goes_on(run)
    assert 1 not in controllers(cluster)
    steps = [row["step"] for row in rows(run)]
    assert steps == sorted(steps)
    cluster.restore_link(1)
    goes_on(run)
    assert 1 not in controllers(cluster)
    status = cluster.run(0, [*SHOAL, "status", str(run), "--json"], cwd=tmp_path)
    assert json.loads(status.stdout)["state"] == "running", status.stdout + status.stderr
    assert cluster.run(0, [*SHOAL, "stop", str(run)], cwd=tmp_path).returncode == 0
    until(lambda: lines(run / "events.jsonl")[-1]["kind"] == "stop", "it stops")
    assert driver.wait(120) == 1
    said = (tmp_path / "driver.log").read_text().splitlines()[-1]
    assert said.startswith("shoal: Ray's head at 10.0.0.1:6379 has not answered for "), said
