"""A run on three machines, in a real browser."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from nodes import Cluster, write_token

from shoal.monitoring.run_folder import RunFolder
from shoal.runs.panel import ask


@pytest.mark.slow
@pytest.mark.usefixtures("_has_ray")
def test_a_live_run_on_three_machines(tmp_path: Path, dashboard: Any, visit: Any) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    words = [
        "placement.actors=3",
        "placement.cluster.strategy=spread",
        "env.num_envs=12",
        "algorithm.minibatch=64",
        "stop.steps=null",
        "stop.return=null",
    ]
    with Cluster(write_token(tmp_path / "token")) as cluster:
        cluster.start(nodes=3, cpus=2)
        argv = [
            sys.executable,
            "-m",
            "shoal.cli",
            "train",
            "cartpole",
            "--on",
            "ray",
            "--address",
            cluster.address,
            "--trial",
            "t",
            "--detach",
            *words,
        ]
        cluster.run(0, argv, cwd=tmp_path, timeout=200)
        page = visit(dashboard(root), "/run/cartpole/t").page
        page.wait_for_selector(".pill.live.running", timeout=30_000)
        page.wait_for_selector(".pipeline .big")
        page.click("summary:has-text('Every worker')")
        machines = set(re.findall(r" on (\S+)", page.locator(".workers").inner_text()))
        assert len(machines) == 3
        ask(RunFolder(root / "cartpole" / "t"), "stop")
        page.wait_for_selector(".pill.done", timeout=60_000)
