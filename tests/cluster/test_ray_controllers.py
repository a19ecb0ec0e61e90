"""Where the controller of a run lives, and what it needs there."""

from __future__ import annotations

from pathlib import Path

import pytest
from nodes import Cluster
from test_ray_faults import cluster, machines, rows
from test_ray_runs import SPREAD, assert_balanced, command, trained

__all__ = ["cluster"]
pytestmark = [pytest.mark.usefixtures("_has_ray"), pytest.mark.timeout(900), pytest.mark.slow]

WORDS = ["placement.actors=3", *SPREAD, "stop.return=null", "checkpoint.every=1s"]


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
