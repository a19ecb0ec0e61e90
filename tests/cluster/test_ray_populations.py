"""Populations on a real cluster of three machines that share no folder: equal bits, parts of cores, machines that are killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from nodes import Cluster
from test_ray_runs import SHOAL, cluster, until  # noqa: F401 (a fixture)

from shoal.population.folder import PopulationFolder
from shoal.population.start import Options, population, sweep
from tests.population.killed import PBT
from tests.population.small import learned, rows, values
from tests.population.test_killed_populations import decisions

pytestmark = [pytest.mark.usefixtures("_has_ray"), pytest.mark.timeout(900), pytest.mark.slow]

EIGHT = {"grid": {"algorithm.lr": [1e-3, 3e-3]}, "seeds": 4}


def written(folder: Path, name: str, **rest: Any) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(values(**rest), sort_keys=False))
    return path


def command(cluster: Cluster, word: str, recipe: Path, *words: str) -> list[str]:  # noqa: F811
    return [*SHOAL, word, str(recipe), "--on", "ray", "--address", cluster.address, *words]


def done(cluster: Cluster, word: str, recipe: Path, *words: str) -> Path:  # noqa: F811
    """Run to its end on node 0; the folder of the population."""
    ended = cluster.run(0, command(cluster, word, recipe, *words), cwd=recipe.parent, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return recipe.parent / "runs" / recipe.stem


def lines(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    return [line for line in PopulationFolder(folder).journal.read() if line["kind"] in kinds]


def most_at_once(folder: Path) -> int:
    working = most = 0
    for line in lines(folder, "started", "turn", "left", "crashed", "failed"):
        working += 1 if line["kind"] == "started" else -1
        most = max(most, working)
    return most


def test_the_same_sweep_on_three_machines_has_the_same_bits(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    recipe = written(tmp_path, "far", sweep=EIGHT)
    for node in (1, 2):
        hidden = tmp_path / "runs"
        hidden.mkdir(exist_ok=True)
        cluster.hosts[node].hide(hidden)
    far = done(cluster, "sweep", recipe)
    near = sweep(values(sweep=EIGHT), [], Options("near", root=tmp_path / "runs", quiet=True))
    assert {line["machine"] for line in lines(far, "turn")} == set(cluster.addresses)
    assert most_at_once(far) <= 6, "a core for each member"
    assert rows(far) == rows(near.folder)
    assert learned(far) == learned(near.folder)
    assert len(learned(far)) == 8
    assert json.loads((far / "lr-0.001-seed-1" / "provenance.json").read_text())["command"][1:3] == [
        "sweep",
        str(recipe),
    ]
    for node in range(3):
        assert not cluster.run(node, ["sh", "-c", "ls -d /tmp/shoal-slots-*/*"]).stdout, "nothing is left behind"


def test_members_ask_for_parts_of_cores(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    """Each waits until all eight work at once, which six cores hold only in halves."""
    place = tmp_path / "gate"
    place.mkdir()
    gate = {"place": str(place), "count": 8}
    env = {"id": "tests.population.gate:Gate", "num_envs": 4, "timeout": 300.0, "kwargs": gate}
    halves = {"cluster": {"trainer": {"cpus": 0.5}}}
    folder = done(cluster, "sweep", written(tmp_path, "halves", env=env, placement=halves, sweep={"seeds": 8}))
    assert most_at_once(folder) == 8
    assert not lines(folder, "crashed")
    capped = done(cluster, "sweep", written(tmp_path, "capped", sweep={"seeds": 4}), "--parallel", "2")
    assert most_at_once(capped) <= 2


def test_what_fits_nowhere_is_said_at_once(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    greedy = written(tmp_path, "greedy", placement={"cluster": {"trainer": {"gpus": 1}}}, sweep={"seeds": 2})
    ended = cluster.run(0, command(cluster, "sweep", greedy), cwd=tmp_path, timeout=120)
    assert ended.returncode == 2
    assert "no machine of the cluster holds a member: it asks for 1 GPU, at most 0 is left" in ended.stderr
    assert not (tmp_path / "runs").exists()


def test_a_killed_member_and_a_killed_machine_are_tried_again(tmp_path: Path) -> None:
    """On a cluster of its own: the machine does not come back."""
    from nodes import write_token
    from test_ray_runs import QUICK

    env = {"id": "tests.population.trouble:Trouble", "num_envs": 4}
    rest: dict[str, Any] = {"stop": {"steps": 60_000}, "checkpoint": {"every": "50 updates"}, "sweep": {"seeds": 4}}
    hurt = {**env, "kwargs": {"fault": "kill", "place": str(tmp_path)}}
    recipe = written(tmp_path, "hurt", env=hurt, **rest)
    with Cluster({**QUICK, **write_token(tmp_path / "token")}) as own:
        own.start(nodes=3, cpus=2)
        with open(tmp_path / "driver.log", "w") as out:
            driver = own.spawn(0, command(own, "sweep", recipe), cwd=tmp_path, stdout=out, stderr=out)
        folder = tmp_path / "runs" / "hurt"

        def away() -> list[int]:
            asked = own.run(0, [*SHOAL, "status", str(folder), "--json"], cwd=tmp_path).stdout
            members = json.loads(asked)["members"] if asked.startswith("{") else []
            far = [each for each in members if each.get("steps") and each.get("node") in own.addresses[1:]]
            return [own.addresses.index(each["node"]) for each in far]

        node = until(away, "a member learns on another machine", 240)[0]
        own.kill_node(node)
        assert driver.wait(400) == 0, (tmp_path / "driver.log").read_text()
    said = [line["reason"] for line in lines(folder, "crashed")]
    assert [text for text in said if "ended by SIGKILL" in text], said
    assert [text for text in said if f"on {own.addresses[node]} is lost" in text], said
    well = sweep(values(env={**env, "kwargs": {}}, **rest), [], Options("well", root=tmp_path / "runs", quiet=True))
    assert rows(folder) == rows(well.folder)
    assert learned(folder) == learned(well.folder)


def test_a_population_copies_between_machines_and_is_resumed_to_the_bit(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    recipe = written(tmp_path, "far", **PBT)
    with open(tmp_path / "driver.log", "w") as out:
        driver = cluster.spawn(0, command(cluster, "train", recipe), cwd=tmp_path, stdout=out, stderr=out)
    folder = tmp_path / "runs" / "far"
    until(lambda: driver.poll() is not None or lines(folder, "compared"), "members were compared", 240)
    inside = int(Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text())
    os.kill(inside, signal.SIGKILL)
    driver.wait(30)
    far = done(cluster, "train", recipe, "--resume")
    near = population(values(**PBT), [], Options("near", root=tmp_path / "runs", parallel=2, quiet=True))
    assert decisions(far) == decisions(near.folder)
    assert lines(far, "taken")
    assert rows(far) == rows(near.folder)
    assert learned(far) == learned(near.folder)
