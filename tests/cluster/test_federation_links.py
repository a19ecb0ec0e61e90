"""Parent and children on machines of their own: cables are pulled, packets vanish, processes are killed in mid-round."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from apart import Apart, sent
from hosts import Host, Switch

from shoal.recipes import find
from tests.federation.ends import command, until

pytestmark = [pytest.mark.usefixtures("_can_make_hosts"), pytest.mark.slow]


@pytest.fixture
def apart(tmp_path: Path, _can_make_hosts: None) -> Iterator[Apart]:
    made = Apart(tmp_path, "anna", "bert", "carl")
    yield made
    made.close()


@pytest.mark.timeout(600)
def test_a_link_is_cut_for_twenty_seconds_and_a_child_comes_late(apart: Apart) -> None:
    """Nobody is told: packets vanish. It is seen within 30 s, the others go on, and who comes back has lost nothing."""
    parent, anna = apart.start("parent"), apart.start("anna")
    bert = apart.start("bert")
    for name in ("anna", "bert"):
        parent.says(f"{name} joined", seconds=120)
    parent.reaches(parent.version + 3, 120)
    apart.switch.set_link(apart.addresses["bert"], up=False)
    began, cut = time.monotonic(), bert.version
    parent.says("bert left", seconds=30)
    parent.reaches(parent.version + 3)
    apart.start("carl")
    parent.says("carl joined", seconds=60)
    time.sleep(max(0.0, began + 20 - time.monotonic()))
    apart.switch.set_link(apart.addresses["bert"], up=True)
    parent.says("bert joined", count=2, seconds=60)
    bert.reaches(cut + 3)
    parent.reaches(parent.version + 5)
    assert {each.process.poll() for each in (parent, anna, bert)} == {None}
    assert not parent.said("strikes:")
    until(lambda: sent(bert) - apart.rounds()["bert"] <= 1, 60, lambda: f"{sent(bert)} sent, {apart.rounds()} taken")


@pytest.mark.timeout(600)
def test_a_connection_that_is_half_open_is_seen_at_both_ends(apart: Apart) -> None:
    """What is sent to bert is lost, what he sends arrives: nobody closes anything, and both ends see it within 30 s."""
    parent, anna, bert = apart.start("parent"), apart.start("anna"), apart.start("bert")
    for name in ("anna", "bert"):
        parent.says(f"{name} joined", seconds=120)
    parent.reaches(parent.version + 3, 120)
    apart.switch.silence(apart.addresses["bert"])
    began = time.monotonic()
    parent.says("bert left", seconds=30)
    bert.says("lost the parent", seconds=max(1.0, began + 30 - time.monotonic()))
    parent.reaches(parent.version + 5)
    version = bert.version
    bert.reaches(version + 3)  # it trains on by itself
    assert {each.process.poll() for each in (parent, anna, bert)} == {None}


@pytest.mark.timeout(600)
def test_both_ends_are_killed_in_mid_round(apart: Apart) -> None:
    """Rounds of a second; half a second after one began somebody is killed. That round is missing at most."""
    parent, anna, bert = (apart.start(name, "federation.every=1s") for name in ("parent", "anna", "bert"))
    for name in ("anna", "bert"):
        parent.says(f"{name} joined", seconds=120)
    parent.reaches(parent.version + 4, 120)

    def in_mid_round(of: str) -> None:
        rounds = apart.rounds()[of]
        until(lambda: apart.rounds()[of] > rounds, 60)
        time.sleep(0.5)

    in_mid_round("anna")
    apart.kill("anna")
    given = sent(anna)
    parent.says("anna left", seconds=30)
    assert given - apart.rounds()["anna"] <= 1
    version = parent.version
    parent.reaches(version + 3)
    again = apart.start("anna", "federation.every=1s", trial="anna-2")
    parent.says("anna joined", count=2, seconds=60)
    in_mid_round("bert")
    apart.kill("parent")
    for child in (again, bert):
        child.says("lost the parent", seconds=30)
    heard = max(row.get("federation/version", 0) for child in (again, bert) for row in child.lines("metrics.jsonl"))
    rounds, updates = apart.rounds(), bert.version
    assert sent(bert) - rounds["bert"] <= 1
    bert.reaches(updates + 3)  # children train on meanwhile
    resumed = apart.start("parent", "federation.every=1s", "--resume")
    resumed.reaches(int(heard) + 4, 90)
    assert all(apart.rounds()[name] >= count for name, count in rounds.items())
    until(lambda: sent(bert) - apart.rounds()["bert"] <= 1, 60)
    assert {each.process.poll() for each in (resumed, again, bert)} == {None}
    assert not resumed.said("strikes:")


@pytest.mark.timeout(900)
def test_three_children_elsewhere_reach_the_bar(tmp_path: Path) -> None:
    recipe = find("cartpole-a4c").read_text() + "name: toy\n"
    apart = Apart(tmp_path, "anna", "bert", "carl", recipe=recipe)
    try:
        # mixed whenever somebody is ready, weights swing: two of five runs do not reach it within the recipe's 500,000 steps
        settings = ["federation.every=10 updates", "stop.steps=2_000_000"]
        parent = apart.start("parent", "evaluation.every=1s", *settings)
        for name in ("anna", "bert", "carl"):
            apart.start(name, *settings)
        assert parent.ends(800) == 0, parent.why()
        assert "stop.return = 475 reached" in parent.why()
        assert max(row.get("federation/children", 0) for row in parent.lines("metrics.jsonl")) == 3
        assert {"anna", "bert", "carl"} == apart.rounds().keys()
        # of the version that reached it: children went on while it was evaluated
        done = command(
            apart.place, "evaluate", str(parent.folder), "--checkpoint", "best", "--episodes", "100", "--json"
        )
        assert json.loads(done.stdout)["mean_return"] >= 475
    finally:
        apart.close()


@pytest.mark.timeout(60)
def test_a_slow_cable_is_as_slow_as_it_says() -> None:
    """A megabit in a second, and a tenth of a second there and back."""
    switch, near, far = Switch(), Host("near"), Host("far")
    try:
        there = switch.plug(near)
        switch.plug(far, bits=1e6, delay=0.05)
        listens = """
import socket
with socket.create_server(("", 99)) as server:
    line, _ = server.accept()
    while part := line.recv(65536):
        if part.endswith(b"."): line.sendall(b"!")
"""
        calls = f"""
import socket, time
line = socket.create_connection(("{there}", 99), 10)
def lasts(data):
    began = time.monotonic(); line.sendall(data); line.recv(1); return time.monotonic() - began
print(min(lasts(b".") for _ in range(3)), lasts(bytes(250_000) + b"."))
"""
        server = subprocess.Popen(near.inside([sys.executable, "-c", listens]))
        time.sleep(1.0)
        done = subprocess.run(
            far.inside([sys.executable, "-c", calls]), capture_output=True, text=True, timeout=40, check=True
        )
        trip, two_megabits = map(float, done.stdout.split())
        assert 0.1 <= trip < 0.2
        assert 2.0 <= two_megabits < 6.0
        server.kill()
        server.wait()
    finally:
        near.kill()
        far.kill()
        switch.close()
