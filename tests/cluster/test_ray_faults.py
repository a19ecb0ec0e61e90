"""Runs on a real cluster that machines leave, lose their link to, and join; and the bars that recipes reach there."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nodes import Cluster, write_token
from test_ray_runs import QUICK, SHOAL, SPREAD, assert_balanced, lines, run_of, trained, until

from shoal.checkpoints.store import CheckpointStore

__all__ = ["run_of"]
pytestmark = [pytest.mark.usefixtures("_has_ray"), pytest.mark.timeout(900), pytest.mark.slow]

ROOM = ["placement.actors=3", *SPREAD]


@pytest.fixture
def cluster(_has_ray: None, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster({**QUICK, **write_token(tmp_path / "token")}) as cluster:
        cluster.start(nodes=3, cpus=4)
        yield cluster


def rows(run: Path) -> list[dict[str, Any]]:
    return lines(run / "metrics.jsonl")


def machines(run: Path) -> dict[str, str]:
    """Process -> the machine that it was placed on last."""
    return {event["process"]: event["node"] for event in lines(run / "events.jsonl") if event["kind"] == "placed"}


def goes_on(run: Path, more: int = 5, seconds: float = 150) -> None:
    updates = rows(run)[-1]["update"]
    until(lambda: rows(run)[-1]["update"] >= updates + more, "the run goes on", seconds)


def greedy(cluster: Cluster, run: Path) -> float:
    said = cluster.run(0, [*SHOAL, "evaluate", str(run), "--episodes", "100", "--seed", "77"], cwd=run.parent).stdout
    found = re.search(r"mean return (-?[\d.]+)", said)
    assert found is not None, said
    return float(found[1])


def node_of(cluster: Cluster, address: str) -> int:
    return cluster.addresses.index(address)


def test_a_machine_is_killed_and_the_run_reaches_its_bar(
    run_of: Callable[..., Any], cluster: Cluster, tmp_path: Path
) -> None:
    words = ["placement.actors=4", "placement.cluster.strategy=spread", "stop.steps=200_000", "stop.return=475"]
    run, driver = run_of("killed", *words)
    home = machines(run)["trainer"]
    dead = next(address for address in machines(run).values() if address not in (home, cluster.addresses[0]))
    moved = [process for process, address in machines(run).items() if address == dead]
    cluster.kill_node(node_of(cluster, dead))
    began = time.monotonic()
    until(lambda: all(machines(run)[process] != dead for process in moved), "its workers have other places")
    print(f"a machine with {', '.join(moved)} was killed; they work elsewhere after {time.monotonic() - began:.1f} s")
    assert driver.wait(300) == 0, (tmp_path / "killed.log").read_text()
    assert_balanced(run)
    lost = rows(run)[-1]["rows/lost"]
    print(f"rows lost: {lost:g} of {rows(run)[-1]['rows/produced']:g}; greedy {greedy(cluster, run):.1f}")
    assert greedy(cluster, run) >= 475


def test_the_trainers_machine_is_killed(run_of: Callable[..., Any], cluster: Cluster) -> None:
    run, _ = run_of("headless", *ROOM, "placement.cluster.head=false")
    dead = machines(run)["trainer"]
    assert dead != cluster.addresses[0], "workers keep off the head node"
    until(lambda: CheckpointStore(run / "checkpoints").versions(), "a checkpoint")
    cluster.kill_node(node_of(cluster, dead))
    until(lambda: machines(run)["trainer"] != dead, "the trainer has another place")
    goes_on(run)
    assert_balanced(run)


def test_a_link_is_cut_for_20_seconds(run_of: Callable[..., Any], cluster: Cluster) -> None:
    run, _ = run_of("cut", *ROOM)
    before = machines(run)
    away = next(address for address in before.values() if address != cluster.addresses[0])
    cluster.cut_link(node_of(cluster, away))
    time.sleep(20)  # the cut itself: nothing to wait for
    cluster.restore_link(node_of(cluster, away))
    goes_on(run)
    assert_balanced(run)
    restarts = [event for event in lines(run / "events.jsonl") if event["kind"] == "note" and "again" in event["text"]]
    print(f"after a cut of 20 s: {len(restarts)} restarts, rows lost {rows(run)[-1]['rows/lost']:g}")


def test_actors_join_with_a_machine_and_leave_with_it(run_of: Callable[..., Any], cluster: Cluster) -> None:
    words = [
        "placement.actors={min: 2, max: 14}",
        "placement.envs_per_actor=4",
        "placement.max_lag=2",
        *SPREAD[:1],
        *SPREAD[2:],
    ]
    run, _ = run_of("elastic", *words)
    until(lambda: len(machines(run)) >= 11, "all room is used: a trainer and 11 actors on 12 cores", 240)
    late = cluster.add_node(cpus=3)
    address = cluster.addresses[late]
    until(lambda: list(machines(run).values()).count(address) == 3, "three more on the new machine", 240)
    goes_on(run)
    cluster.kill_node(late)
    goes_on(run, more=10)
    assert_balanced(run)


def test_the_controller_is_killed(run_of: Callable[..., Any], cluster: Cluster) -> None:
    run, driver = run_of("orphan", *ROOM)
    until(lambda: CheckpointStore(run / "checkpoints").versions(), "a checkpoint")
    everybody = [pid for host in cluster.hosts for pid in host.processes()]
    (controller,) = [pid for pid in everybody if b"ray::RayController" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(controller, signal.SIGKILL)
    until(lambda: [e for e in lines(run / "events.jsonl") if e["kind"] == "start" and e["resumed"]], "it resumes")
    goes_on(run)
    assert driver.poll() is None, "the driver stays with it"
    steps = [row["step"] for row in rows(run)]
    assert steps == sorted(steps)


@pytest.mark.parametrize("seed", [1, 2])
def test_cartpole_reaches_its_bar_on_three_machines(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    run = trained(
        cluster, tmp_path, "bar", "--seed", str(seed), "placement.actors=4", "placement.cluster.strategy=spread"
    )
    assert len(set(machines(run).values())) == 3
    score = greedy(cluster, run)
    print(f"cartpole, seed {seed}: greedy {score:.1f} after {rows(run)[-1]['step']:,} steps")
    assert score >= 475


def test_spread_reaches_its_bar_on_three_machines(cluster: Cluster, tmp_path: Path) -> None:
    pytest.importorskip("mpe2", reason="the extra `mpe` is not installed")
    words = ["placement.actors=4", "placement.cluster.strategy=spread"]
    run = trained(cluster, tmp_path, "spread", *words, recipe="spread")
    assert len(set(machines(run).values())) == 3
    evaluate = [*SHOAL, "evaluate", str(run), "env.id=mpe2/simple_spread_v3", "--episodes", "200", "--json"]
    scores = json.loads(cluster.run(0, evaluate, cwd=tmp_path, timeout=300).stdout)
    (score,) = scores["agent_return"].values()
    last = rows(run)[-1]
    print(f"spread, played in mpe2: {score:.2f} per agent after {last['step']:,} steps, {last['time/elapsed']:.0f} s")
    assert score >= -11


@pytest.mark.parametrize("kind", ["trainer", "actor"])
def test_a_worker_that_hangs_is_started_again(run_of: Callable[..., Any], cluster: Cluster, kind: str) -> None:
    run, _ = run_of("hung", *ROOM, "placement.hang=3s", "env.timeout=3s")
    asked = [*SHOAL, "status", str(run), "--json"]

    def seen() -> dict[str, Any]:
        status: str = until(lambda: cluster.run(0, asked, cwd=run.parent).stdout, "an answer")
        return next(line for line in json.loads(status)["workers"] if line["kind"] == kind)

    before = seen()
    stop = ["kill", "-STOP", str(before["pid"])]
    assert cluster.run(node_of(cluster, before["node"]), stop).returncode == 0
    began = time.monotonic()
    until(lambda: seen()["restarts"] == 1, "it is started again")
    print(f"a stopped {kind} lives again after {time.monotonic() - began:.1f} s")
    goes_on(run)
    assert_balanced(run)


def holder_of(cluster: Cluster, node: int, pid: int) -> str:
    """The Ray actor above a process: its fork server's parent."""
    parent: Callable[[str], str] = lambda of: cluster.run(node, ["ps", "-o", "ppid=", "-p", of]).stdout.strip()  # noqa: E731
    return parent(parent(str(pid)))


@pytest.mark.parametrize("holder", ["lives", "hangs"])
def test_a_killed_worker_is_forked_again(run_of: Callable[..., Any], cluster: Cluster, holder: str) -> None:
    """By its holder, which outlives it; one that hangs is ended, and Ray starts another."""
    run, _ = run_of("killed", *ROOM, "placement.hang=3s", "env.timeout=3s")
    asked = [*SHOAL, "status", str(run), "--json"]

    def seen() -> dict[str, Any]:
        status: str = until(lambda: cluster.run(0, asked, cwd=run.parent).stdout, "an answer")
        return next(line for line in json.loads(status)["workers"] if line["kind"] == "actor")

    before = seen()
    node = node_of(cluster, before["node"])
    above = holder_of(cluster, node, before["pid"])
    assert "ray::RayHolder" in cluster.run(node, ["ps", "-o", "args=", "-p", above]).stdout
    if holder == "hangs":
        assert cluster.run(node, ["kill", "-STOP", above]).returncode == 0
    assert cluster.run(node, ["kill", "-KILL", str(before["pid"])]).returncode == 0
    began = time.monotonic()
    after: dict[str, Any] = until(
        lambda: (now := seen())["restarts"] == 1 and now["pid"] and now, "it is started again"
    )
    print(f"a killed worker whose holder {holder} lives again after {time.monotonic() - began:.1f} s")
    goes_on(run)
    again = node_of(cluster, seen()["node"])
    assert (holder_of(cluster, again, seen()["pid"]) == above) == (holder == "lives"), after
    assert_balanced(run)


def test_the_agent_of_a_machine_hangs(run_of: Callable[..., Any], cluster: Cluster) -> None:
    """Nobody there can be heard, or ended by it: it is ended from outside, and its workers begin again."""
    run, _ = run_of("silent", *ROOM, "placement.hang=3s", "env.timeout=3s")
    away = [node for node in range(3) if cluster.addresses[node] in machines(run).values()]
    found = {node: cluster.run(node, ["pgrep", "-f", "^ray::RayAgent"]).stdout.split() for node in away}
    node, (agent,) = next((node, pids) for node, pids in found.items() if len(pids) == 1)
    assert cluster.run(node, ["kill", "-STOP", agent]).returncode == 0
    moved = [process for process, address in machines(run).items() if address == cluster.addresses[node]]
    began = time.monotonic()

    def again() -> set[str]:
        placed = [event for event in lines(run / "events.jsonl") if event["kind"] == "placed" and event["life"] > 0]
        return {event["process"] for event in placed}

    until(lambda: again().issuperset(moved), "its workers are started again")
    print(f"{', '.join(moved)} live again {time.monotonic() - began:.1f} s after their agent was stopped")
    goes_on(run)
    assert_balanced(run)
