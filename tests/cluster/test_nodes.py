"""The cluster other tests stand on: real Ray nodes that join late, die, and lose their link."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from nodes import Cluster

pytestmark = pytest.mark.usefixtures("_has_ray")

# Answers each line of Python it is given with one line: "= " and its value.
_CONSOLE = """
import sys, time, ray, numpy
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(address="auto", log_to_driver=False, logging_level="ERROR")

@ray.remote(num_cpus=1, max_restarts=-1)
class Worker:
    def where(self): return ray.util.get_node_ip_address()
    def make(self, count): return numpy.zeros(count, numpy.uint8)

def on(address):
    ids = {node["NodeManagerAddress"]: node["NodeID"] for node in ray.nodes()}
    return Worker.options(scheduling_strategy=NodeAffinitySchedulingStrategy(ids[address], soft=True)).remote()

def alive(): return sorted(node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"])

def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return True

def answers(worker):
    try:
        return ray.get(worker.where.remote(), timeout=1)
    except (ray.exceptions.RayError, TimeoutError):
        return ""

print("= ready", flush=True)
for line in sys.stdin:
    print("=", eval(line), flush=True)
"""
# A dead node is noticed in about 2 s instead of 13.
_QUICK = {
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "300",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "5",
}


class Console:
    """A driver inside a node that evaluates expressions."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        argv = [sys.executable, "-u", "-c", _CONSOLE]
        self._driver = cluster.spawn(node, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._answer() == "ready"

    def ask(self, expression: str) -> str:
        assert self._driver.stdin is not None
        self._driver.stdin.write(expression + "\n")
        self._driver.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        """Ray writes its own news between the answers, whatever `log_to_driver` is."""
        assert self._driver.stdout is not None
        for line in self._driver.stdout:
            if line.startswith("= "):
                return line[2:].rstrip("\n")
        raise EOFError("the driver has ended")

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *error: object) -> None:
        self._driver.kill()
        self._driver.communicate(timeout=20)


@pytest.mark.slow
def test_nodes_come_and_go_and_stop_leaves_nothing() -> None:
    cluster = Cluster(_QUICK)
    try:
        cluster.start(nodes=2, cpus=1)
        with Console(cluster, 0) as console:
            _a_result_travels(cluster, console)
            _a_node_joins_late(cluster, console)
            _a_short_cut_is_survived(cluster, console)
            _the_actors_of_a_dead_node_move(cluster, console)
        processes = [pid for host in cluster.hosts for pid in [host.pid, *host.processes()]]
        assert len(processes) > 8
    finally:
        cluster.stop()
    assert not [pid for pid in processes if Path(f"/proc/{pid}").exists()]
    assert not cluster.folder.exists()


def _a_result_travels(cluster: Cluster, console: Console) -> None:
    assert console.ask("alive()") == "['10.0.0.1', '10.0.0.2']"
    assert console.ask("ray.get((worker := on('10.0.0.2')).where.remote())") == "10.0.0.2"
    before = cluster.bytes_sent(1)
    assert console.ask("len(ray.get(worker.make.remote(4 << 20)))") == str(4 << 20)
    assert cluster.bytes_sent(1) - before > 4 << 20


def _a_node_joins_late(cluster: Cluster, console: Console) -> None:
    assert cluster.add_node(cpus=1) == 2
    assert console.ask("alive()") == "['10.0.0.1', '10.0.0.2', '10.0.0.3']"


def _a_short_cut_is_survived(cluster: Cluster, console: Console) -> None:
    cluster.cut_link(1)
    assert console.ask("answers(worker)") == ""
    cluster.restore_link(1)
    assert console.ask("until(lambda: answers(worker) == '10.0.0.2')") == "True"


def _the_actors_of_a_dead_node_move(cluster: Cluster, console: Console) -> None:
    cluster.kill_node(1)
    assert cluster.hosts[1].processes() == []
    assert console.ask("until(lambda: alive() == ['10.0.0.1', '10.0.0.3'])") == "True"
    assert console.ask("until(lambda: answers(worker) in alive())") == "True"
