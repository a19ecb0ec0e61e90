"""Processes that find their places on a cluster while others die: none is forgotten. Without a cluster: Ray's answers are given."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("ray", reason="an extra: cluster")

from shoal.api.program import Process
from shoal.launchers.ray import placing
from shoal.launchers.ray.placing import RayLink, RaySupervisor
from shoal.streams.control import Failure
from shoal.workers.context import Life

PLACE = ("node", 17)


class Cluster:
    """A supervisor of two processes that live, what it set to work, and whom it ended."""

    def __init__(self) -> None:
        self.set_to_work: list[str] = []
        self.supervisor = RaySupervisor(
            "run", None, lambda link: self.set_to_work.append(link.name), lambda *_: None, 60.0
        )
        self.first, self.second = (
            RayLink(Process(f"actor-{number}", (), {}), number, Life(), None, *PLACE) for number in (0, 1)
        )
        self.supervisor.links = [self.first, self.second]

    def answers(self, link: RayLink, answer: Any) -> None:
        """What a holder was asked."""
        self.supervisor._news.put((link, answer, link.life.incarnation))

    def dies(self, link: RayLink) -> None:
        """It is started again, and its holder was asked where it is."""
        link.life, link.node, link.where_ref = Life(incarnation=link.life.incarnation + 1), "", object()
        link.since = time.monotonic()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(placing.ray, "get", lambda answer: answer)
    monkeypatch.setattr(placing.ray, "wait", lambda refs, **_: (time.sleep(0.01), ([], refs))[1])
    monkeypatch.setattr(placing.ray, "kill", lambda *_, **__: None)
    monkeypatch.setattr(placing, "ENDING", 0.05)
    made = Cluster()
    yield made
    made.supervisor.close()


def test_a_place_that_is_found_while_another_is_reaped(cluster: Cluster) -> None:
    cluster.dies(cluster.second)
    cluster.answers(cluster.second, PLACE)
    cluster.first.failed(Failure(False, "it broke", ""))
    cluster.supervisor.reap(cluster.first)
    assert cluster.second.node == "node"
    assert list(cluster.supervisor.heard()) == []
    assert cluster.set_to_work == ["actor-1"]
    assert list(cluster.supervisor.heard()) == []
    assert cluster.set_to_work == ["actor-1"], "once"


def test_who_died_again_meanwhile_waits_for_its_next_place(cluster: Cluster) -> None:
    cluster.dies(cluster.second)
    cluster.answers(cluster.second, PLACE)
    cluster.first.failed(Failure(False, "it broke", ""))
    cluster.supervisor.reap(cluster.first)
    cluster.dies(cluster.second)
    assert list(cluster.supervisor.heard()) == []
    assert cluster.set_to_work == []
    cluster.answers(cluster.second, PLACE)
    assert list(cluster.supervisor.heard()) == []
    assert cluster.set_to_work == ["actor-1"]


def test_first_places_are_the_launchers(cluster: Cluster) -> None:
    for link in cluster.supervisor.links:
        cluster.dies(link)
        cluster.answers(link, PLACE)
    cluster.supervisor.placed()
    assert list(cluster.supervisor.heard()) == []
    assert cluster.set_to_work == []
