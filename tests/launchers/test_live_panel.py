"""Orders to a live run, and what it says of itself."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.monitoring.shares import STATES
from tests.launchers.live import Run, check, experiment, notes, rows, saved, train
from tests.launchers.processes import nothing_left

TIMEOUT = 1.0


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    with nothing_left():
        yield


def stands_still(run: Run, seconds: float) -> None:
    """What each trainer had under way when it was paused comes to its end; in the second half of the time nothing moves."""
    trainers = sum(worker["kind"] == "trainer" for worker in run.status()["workers"])
    began, updates, start = run.status()["update"], [], time.monotonic()
    while (now := time.monotonic()) < start + seconds:
        status = run.status()
        assert status["state"] == "paused"
        if now > start + seconds / 2:
            updates.append(status["update"])
    assert len(set(updates)) == 1
    assert began <= updates[0] <= began + trainers


PLACES = [
    ("inline", {}),
    ("local", {"actors": 2}),
    ("local", {"trainers": 2}),
    ("local", {"actors": 2, "trainers": 2, "agree": "hogwild"}),
]


@pytest.mark.parametrize(("on", "placement"), PLACES)
def test_pause_unpause_and_stop(tmp_path: Path, on: str, placement: dict[str, Any]) -> None:
    def script(run: Run) -> None:
        run.go_on()
        pids = [worker["pid"] for worker in run.status()["workers"]]
        assert run.ask("pause") == {"state": "paused"}
        stands_still(run, 1.5 * TIMEOUT)
        now = run.status()["workers"]
        assert [worker["pid"] for worker in now] == pids
        assert not any(worker["restarts"] for worker in now)
        assert run.ask("unpause") == {"state": "running"}
        run.go_on()
        assert "no order" in run.ask("dance")["error"]

    outcome, _ = train(experiment(env={"timeout": TIMEOUT}, placement=placement), tmp_path, script, on=on)
    check(outcome, 0)
    assert (outcome.reason, outcome.interrupted) == ("stopped by order", False)
    events = [json.loads(line) for line in (outcome.folder / "events.jsonl").read_text().splitlines()]
    assert [event["order"] for event in events if event["kind"] == "order"] == ["pause", "unpause", "stop"]


def test_whoever_dies_in_a_paused_run_comes_back_and_waits(tmp_path: Path) -> None:
    def script(run: Run) -> None:
        run.go_on()
        run.ask("pause")
        stands_still(run, 0.5)
        update = run.status()["update"]
        run.kill("trainer-agent-0", "actor-1")
        stands_still(run, 1.0)
        assert run.status()["update"] == update
        run.ask("unpause")
        run.go_on()

    outcome, _ = train(experiment(placement={"actors": 2}), tmp_path, script)
    check(outcome, 2)


def test_a_paused_run_can_be_stopped(tmp_path: Path) -> None:
    def script(run: Run) -> None:
        run.go_on()
        run.ask("pause")

    outcome, _ = train(experiment(placement={"actors": 2}), tmp_path, script)
    assert saved(outcome) == outcome.version == rows(outcome.folder)[-1]["update"]


def test_status_knows_every_worker(tmp_path: Path) -> None:
    def script(run: Run) -> None:
        run.go_on()
        run.kill("actor-1")
        run.go_on()
        now = run.until(lambda now: all("worked" in worker for worker in now["workers"]), "shares of all")
        workers = {worker["name"]: worker for worker in now["workers"]}
        assert list(workers) == ["trainer-agent-0", "actor-0", "actor-1", "policy-agent-0", "policy-agent-1"]
        assert len({worker["pid"] for worker in workers.values()} | {os.getpid()}) == 6
        assert now["pid"] == os.getpid()
        assert {name: worker["restarts"] for name, worker in workers.items() if worker["restarts"]} == {"actor-1": 1}
        for worker in workers.values():
            assert worker["state"] == "alive"
            assert sum(worker.get(state, 0.0) for state in STATES) == pytest.approx(1.0)
        counted = now["rows"]
        assert counted["produced"] == sum(count for name, count in counted.items() if name != "produced")

    placement = {"actors": 2, "inference": "worker", "policy_workers": 2}
    outcome, _ = train(experiment(placement=placement), tmp_path, script)
    check(outcome, 1)


# ---------------------------------------------------------------- the bottleneck

BOUND: dict[str, dict[str, Any]] = {
    "sampling": {
        "env": {"id": "tests.launchers.broken:slow", "num_envs": 2},
        "algorithm": {"epochs": 1, "minibatch": 64},
    },
    "inference": {
        "env": {"num_envs": 2},
        "algorithm": {"epochs": 1, "minibatch": 64},
        "model": {"name": "tests.launchers.slow_model:Slow", "hidden": [16]},
    },
    "learning": {"algorithm": {"epochs": 60}},
}


@pytest.mark.parametrize("on", [pytest.param("inline", marks=pytest.mark.slow), "local"])
@pytest.mark.parametrize("name", BOUND)
def test_the_bottleneck_is_named(tmp_path: Path, name: str, on: str) -> None:
    worker = name == "inference" and on == "local"
    placement = {"actors": 1, "max_lag": 1, "inference": "worker" if worker else "inline"} if on == "local" else {}

    def script(run: Run) -> None:
        run.go_on(1)  # what came before was starting
        began = run.status()["elapsed"]
        run.until(lambda now: now["elapsed"] > began + 2, "seconds")
        run.go_on(1)  # a trainer says where its time went with its next update

    outcome, _ = train(experiment(placement=placement, **BOUND[name]), tmp_path, script, on=on)
    said = [text for _, text in notes(outcome.folder) if text.startswith("bottleneck: ")]
    assert len(said) == 1
    assert said[0].startswith(f"bottleneck: {name} (")
