"""`shoal train --on ray` on a real cluster of three machines: equal bits, faults, drivers that leave, runs that fit nowhere."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy
from hosts import send_signal
from nodes import Cluster, write_token

from shoal.api.experiment import load_experiment
from shoal.recipes import find
from shoal.runs.train import train

pytestmark = [pytest.mark.usefixtures("_has_ray"), pytest.mark.timeout(600)]

SHOAL = [sys.executable, "-m", "shoal.cli"]
QUICK = {
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "6",
}
"""A machine that refuses is dead after 3 s, one that is silent after about 30."""
SPREAD = ["placement.cluster.strategy=spread", "env.num_envs=12", "algorithm.unroll=64", "algorithm.minibatch=64"]
ENDLESS = ["stop.steps=null", "stop.return=null", "checkpoint.every=1s"]


@pytest.fixture(scope="module")
def cluster(_has_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    token = write_token(tmp_path_factory.mktemp("token") / "token")
    with Cluster({**QUICK, **token}) as cluster:
        cluster.start(nodes=3, cpus=2)
        yield cluster


def command(cluster: Cluster, *words: str, recipe: str = "cartpole") -> list[str]:
    return [*SHOAL, "train", recipe, "--on", "ray", "--address", cluster.address, *words]


def trained(
    cluster: Cluster,
    folder: Path,
    trial: str,
    *words: str,
    node: int = 0,
    env: dict[str, str] | None = None,
    recipe: str = "cartpole",
) -> Path:
    options: dict[str, Any] = {} if env is None else {"env": {**cluster.env, **cluster._own(node), **env}}
    argv = command(cluster, "--trial", trial, *words, recipe=recipe)
    done = cluster.run(node, argv, cwd=folder, timeout=800, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "runs" / recipe / trial


def weights(run: Path) -> dict[str, bytes]:
    newest = max((run / "checkpoints").glob("0*"))
    return {name: array.tobytes() for name, array in safetensors.numpy.load_file(newest / "state.safetensors").items()}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def running(cluster: Cluster, title: str) -> list[int]:
    """Processes of the cluster that are called so."""
    found = []
    for pid in [pid for host in cluster.hosts for pid in host.processes()]:
        with suppress(OSError):  # it has ended since
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(title.encode()):
                found.append(pid)
    return found


def until(condition: Callable[[], Any], what: str, seconds: float = 120) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain: {what}"
        time.sleep(0.1)
    return found


@pytest.fixture
def run_of(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., tuple[Path, subprocess.Popen[str]]]]:
    """Start an endless run; it is stopped at the end of the test, whatever became of its driver."""
    runs: list[tuple[Path, subprocess.Popen[str]]] = []

    def start(trial: str, *words: str, **options: Any) -> tuple[Path, subprocess.Popen[str]]:
        argv = command(cluster, "--trial", trial, *ENDLESS, *words)
        with open(tmp_path / f"{trial}.log", "w") as out:
            driver = cluster.spawn(0, argv, cwd=tmp_path, stdout=out, stderr=out, **options)
        run = tmp_path / "runs" / "cartpole" / trial
        runs.append((run, driver))
        until(
            lambda: driver.poll() is not None or len(lines(run / "metrics.jsonl")) > 1, f"{trial} begins to learn", 240
        )
        assert driver.poll() is None, (tmp_path / f"{trial}.log").read_text()
        return run, driver

    yield start
    for run, driver in runs:
        cluster.run(0, [*SHOAL, "stop", str(run)], cwd=tmp_path)
        driver.kill()
        driver.wait(30)


def assert_balanced(run: Path) -> None:
    for row in lines(run / "metrics.jsonl"):
        settled = sum(row.get(f"rows/{name}", 0) for name in ("trained", "inserted", "stale", "not_finite", "lost"))
        assert row["rows/produced"] == settled + row["rows/in_flight"], row


@pytest.mark.parametrize("lag", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_equal_bits_on_one_machine_and_on_three(cluster: Cluster, tmp_path: Path, lag: int) -> None:
    words = [
        *SPREAD,
        "placement.actors=3",
        f"placement.max_lag={lag}",
        "placement.exact=true",
        "stop.updates=4",
        "stop.return=null",
    ]
    before = [cluster.bytes_sent(node) for node in range(3)]
    far = trained(cluster, tmp_path, f"far-{lag}", *words)
    sent = [cluster.bytes_sent(node) - then for node, then in zip(range(3), before, strict=True)]
    near = train(
        load_experiment(find("cartpole"), words), trial=f"near-{lag}", root=tmp_path / "runs", on="inline", quiet=True
    )
    assert weights(far) == weights(near.folder)
    fragments = 4 * 64 * 4 * (4 + 8) * 4  # updates x unroll x copies of an actor x numbers x bytes
    assert sum(sent) > fragments, "fragments of two actors crossed the network"
    assert (
        next(line["bytes_of_fragments"] for line in lines(far / "events.jsonl") if line["kind"] == "traffic")
        > fragments
    )
    assert_balanced(far)


@pytest.mark.slow
def test_replicas_on_three_machines_agree_to_the_bit(cluster: Cluster, tmp_path: Path) -> None:
    words = [*SPREAD, "placement.actors=3", "placement.trainers=3", "stop.updates=3", "stop.return=null"]
    far = trained(cluster, tmp_path, "far", *words)
    nodes = {line["node"] for line in lines(far / "events.jsonl") if line["kind"] == "placed"}
    assert len(nodes) == 3
    until(lambda: not running(cluster, "ray::MeetingPoint"), "nobody meets any more", seconds=10)
    near = train(
        load_experiment(find("cartpole"), words), trial="near", root=tmp_path / "runs", on="inline", quiet=True
    )
    assert weights(far) == weights(near.folder)


@pytest.mark.slow
def test_dead_workers_are_started_again(cluster: Cluster, tmp_path: Path) -> None:
    words = [*SPREAD, "placement.actors=3", "stop.updates=8", "stop.return=null", "checkpoint.every=1s"]
    run = trained(
        cluster, tmp_path, "faults", *words, env={"SHOAL_FAULT": "actor-1@step=700:kill,trainer@update=4:kill"}
    )
    notes = [line["text"] for line in lines(run / "events.jsonl") if line["kind"] == "note"]
    assert sum("actor-1 was started again" in note for note in notes) == 1
    assert sum("trainer was started again" in note for note in notes) == 1
    assert lines(run / "metrics.jsonl")[-1]["update"] >= 8
    assert_balanced(run)


@pytest.mark.slow
def test_the_driver_may_leave_and_another_come(run_of: Callable[..., Any], cluster: Cluster, tmp_path: Path) -> None:
    run, driver = run_of("left", *SPREAD, "placement.actors=2")
    driver.kill()
    driver.wait()
    rows = len(lines(run / "metrics.jsonl"))
    until(lambda: len(lines(run / "metrics.jsonl")) > rows + 3, "the run goes on without its driver")
    with open(tmp_path / "attach.log", "w") as out:
        other = cluster.spawn(1, [*SHOAL, "attach", str(run)], cwd=tmp_path, stdout=out, stderr=out)
    until(lambda: "steps |" in (tmp_path / "attach.log").read_text(), "the other driver shows rows")
    status = cluster.run(2, [*SHOAL, "status", str(run), "--json"], cwd=tmp_path)
    assert json.loads(status.stdout)["state"] == "running", status.stdout + status.stderr
    assert cluster.run(2, [*SHOAL, "stop", str(run)], cwd=tmp_path).returncode == 0
    assert other.wait(60) == 0
    assert "stopped by order after" in (tmp_path / "attach.log").read_text()
    assert "stop" in [line["kind"] for line in lines(run / "events.jsonl")]
    assert list((run / "checkpoints").iterdir())


@pytest.mark.slow
def test_ctrl_c_stops_with_a_checkpoint(run_of: Callable[..., Any], cluster: Cluster) -> None:
    run, driver = run_of("stopped", *SPREAD, "placement.actors=2")
    send_signal(driver, signal.SIGINT)
    assert driver.wait(60) == 130
    assert lines(run / "events.jsonl")[-1]["reason"] == "interrupted by SIGINT"
    assert list((run / "checkpoints").iterdir())


@pytest.mark.slow
def test_a_run_that_fits_nowhere_ends_with_the_reason(cluster: Cluster, tmp_path: Path) -> None:
    greedy = [
        "placement.actors=3",
        "env.num_envs=12",
        "placement.cluster.actor.cpus=2",
        "placement.cluster.trainer.cpus=2",
    ]
    plan = cluster.run(
        1, [*SHOAL, "plan", "cartpole", "--on", "ray", "--address", cluster.address, *greedy], cwd=tmp_path
    )
    assert "it asks for 2 CPU, at most 0 is left" in plan.stdout
    assert "1 of 5 worker processes find no place" in plan.stderr
    began = time.monotonic()
    done = cluster.run(1, command(cluster, *greedy, "placement.cluster.wait=2s"), cwd=tmp_path, timeout=120)
    assert done.returncode == 2
    assert "no place for this run within placement.cluster.wait = 2 s" in done.stderr
    assert "at most 0 is left" in done.stderr
    assert time.monotonic() - began < 60
