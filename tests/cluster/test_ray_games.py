"""Unity builds on three machines: each actor has one of its own, beside it, and what is known to be right is learned."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from nodes import Cluster
from test_ray_runs import SHOAL, assert_balanced, cluster, lines, running  # noqa: F401 (a fixture)

GAMES = Path(__file__).parents[1] / "envs"
sys.path.insert(0, str(GAMES))
from outside_games import executable  # noqa: E402
from unity_runs import RUNS, mistakes  # noqa: E402

pytest.importorskip("grpc")
pytestmark = [pytest.mark.usefixtures("_has_ray"), pytest.mark.timeout(600), pytest.mark.slow]


def trained(cluster: Cluster, folder: Path, settings: dict[str, Any]) -> Path:  # noqa: F811
    """The run's folder."""
    settings["env"]["kwargs"]["log_folder"] = str(folder / "logs")
    (folder / "game.yaml").write_text(json.dumps(settings))
    words = [*SHOAL, "train", "game.yaml", "--on", "ray", "--address", cluster.address, "--trial", "one"]
    done = cluster.run(0, [*words, "placement.cluster.strategy=spread"], cwd=folder, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "runs" / "game" / "one"


def builds(logs: Path) -> set[tuple[int, str]]:
    """Number and machine of every build that has begun; those of the driver, which looks at one, are among them."""
    return {
        (int(log.name.split("-")[1]), name)
        for log in logs.glob("*.log")
        for name in re.findall(r"^on (\w+)$", log.read_text(), re.M)
    }


def assert_beside(run: Path, logs: Path, cluster: Cluster, copies: int) -> None:  # noqa: F811
    """Each actor's build, which goes by its first copy, is on the actor's machine; the run is on all three."""
    placed = [event for event in lines(run / "events.jsonl") if event["kind"] == "placed"]
    at = {event["process"]: f"node{cluster.addresses.index(event['node'])}" for event in placed}
    actors = {int(name.removeprefix("actor-")): node for name, node in at.items() if name.startswith("actor-")}
    assert len(actors) == 3
    assert {(copies * number, node) for number, node in actors.items()} <= builds(logs)
    assert {node for number, node in builds(logs) if number} == {node for number, node in actors.items() if number}
    assert set(at.values()) == {"node0", "node1", "node2"}


@pytest.mark.parametrize("kind", RUNS)
def test_the_known_answer_is_found_on_three_machines(cluster: Cluster, tmp_path: Path, kind: str) -> None:  # noqa: F811
    build = executable(tmp_path, "unity_player.py", "Game.x86_64")
    settings, learner = RUNS[kind]
    run = trained(cluster, tmp_path, settings(build, 3))
    off = mistakes(run, learner)
    print(f"{kind} on three machines: off by {[round(each, 3) for each in off]}")
    assert max(off) < 0.1
    assert_beside(run, tmp_path / "logs", cluster, settings(build, 3)["env"]["num_envs"] // 3)
    assert_balanced(run)
    assert not running(cluster, f"{sys.executable}\0{GAMES}/unity_player.py"), "none outlives its run"
