"""A league on a real cluster of three machines: the same recipe, and each member travels once to each machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from nodes import Cluster, write_token

from shoal.api.experiment import Experiment
from shoal.league.journal import Journal
from shoal.league.payoffs import Payoffs
from shoal.league.standings import Standings
from shoal.monitoring.run_folder import RunFolder

pytestmark = [pytest.mark.usefixtures("_has_ray"), pytest.mark.timeout(600), pytest.mark.slow]

WORDS = [
    "placement.cluster.strategy=spread", "placement.actors=4", "env.num_envs=48", "algorithm.minibatch=128",
    "league.freeze.steps=4_000", "league.games=40", "league.keep=6", "stop.steps=40_000",
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster(_has_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(write_token(tmp_path_factory.mktemp("token") / "token")) as cluster:
        cluster.start(nodes=3, cpus=2)
        yield cluster


def test_a_league_on_three_machines(cluster: Cluster, tmp_path: Path) -> None:
    for host in cluster.hosts[1:]:
        host.hide(tmp_path)  # machines need not share the run's folder
    argv = [sys.executable, "-m", "shoal.cli", "train", "kuhn-psro", "--on", "ray", "--address", cluster.address]
    done = cluster.run(0, [*argv, "--trial", "far", *WORDS], cwd=tmp_path, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "runs/kuhn-psro/far"
    experiment = Experiment.parse(RunFolder(folder).read_config())
    assert experiment.league is not None
    journal, standings = Journal(folder / "league"), Standings(experiment.league, equal=True)
    for decision in journal.decisions():
        standings.apply(decision)
    members = len(standings.frozen)
    assert members >= 6
    assert len(standings.held) == 6
    matches = journal.matches()
    trained = matches[matches["measured"] == 0]
    assert len(np.unique(trained["slot"])) == 48, "all env copies of all machines have played"
    assert len(np.unique(trained[["slot", "episode"]])) == len(trained), "nothing is counted twice"
    assert set(trained["member"].tolist()) - {-1}, "members were met"
    payoffs = Payoffs()
    payoffs.add(matches)
    assert payoffs.played.sum() > 0

    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    sent = next(event["versions"] for event in events if event["kind"] == "traffic")["members/main"]
    print(f"{members} members, {sent} of them sent between machines; {len(matches):,} matches")
    assert members <= sent <= 2 * members, "once to each other machine, however many actors read them there"
