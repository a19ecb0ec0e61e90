"""Whoever dies, the run goes on: every kind of worker is killed at random moments, alone and together."""

from __future__ import annotations

import os
import random
import signal
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.base.faults import VARIABLE
from shoal.checkpoints.store import CheckpointStore
from tests.launchers.live import Run, check, experiment, noticed_after, restarts, rows, saved, train
from tests.launchers.processes import nothing_left, wait_for

VICTIMS: dict[str, tuple[str, dict[str, Any]]] = {
    "actor": ("actor-1", {"actors": 2, "max_lag": 1}),
    "policy worker": ("policy-agent-0", {"actors": 2, "inference": "worker"}),
    "trainer": ("trainer-agent-0", {"actors": 2}),
    "trainer beside a policy worker": ("trainer-agent-0", {"actors": 2, "inference": "worker"}),
    "replica in step": ("trainer-agent-1", {"actors": 2, "trainers": 2, "max_lag": 1}),
    "hogwild replica": ("trainer-agent-1", {"actors": 2, "trainers": 2, "agree": "hogwild"}),
    "actor and trainer together": ("actor-1", {"trainers": 2}),
}
"""Kind -> who is killed, and where."""
NOTICED = 1.0
"""Seconds in which a death is seen."""
BESIDE_OTHERS = 5.0
"""The same, where other tests have the cores."""


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    with nothing_left():
        yield


def killed(tmp_path: Path, kind: str, kills: int, seed: int) -> list[float]:
    """Seconds until each death was noticed."""
    name, placement = VICTIMS[kind]
    outcome, run = train(
        experiment(placement=placement, checkpoint={"every": 0.5}),
        tmp_path,
        lambda run: run.kill_again_and_again(name, kills, random.Random(seed)),
    )
    check(outcome, kills)
    return noticed_after(run, outcome.folder)


@pytest.mark.parametrize("kind", VICTIMS)
def test_killed_workers_are_started_again(tmp_path: Path, kind: str) -> None:
    assert max(killed(tmp_path, kind, kills=2, seed=len(kind))) < BESIDE_OTHERS


def test_a_trainer_may_die_before_its_first_version_is_out(tmp_path: Path) -> None:
    told = tmp_path / "told"

    def look(run: Run) -> None:
        assert wait_for(lambda: told.exists() and bool(told.read_text()), 60)
        os.kill(int(told.read_text()), signal.SIGKILL)
        run.go_on()

    slow = {"name": "tests.launchers.slow_start:SlowStart", "hidden": [16], "told": str(told)}
    outcome, _ = train(experiment(model=slow, placement={"actors": 1, "max_lag": 1}), tmp_path / "runs", look)
    check(outcome, 1)


@pytest.mark.parametrize("other", ["actor-0", "policy-agent-0"])
def test_the_checkpoint_that_a_trainer_went_back_to_may_be_removed_before_others_die(
    tmp_path: Path, other: str
) -> None:
    def look(run: Run) -> None:
        run.go_on()
        run.kill("trainer-agent-0")
        run.go_on(4)
        run.kill(other)
        run.go_on()

    placement, often = {"actors": 2, "inference": "worker"}, {"every": "1 updates", "keep": 1}
    outcome, _ = train(experiment(placement=placement, checkpoint=often), tmp_path, look)
    check(outcome, 2)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", VICTIMS)
def test_twenty_kills(tmp_path: Path, kind: str) -> None:
    seconds = [s for run in range(4) for s in killed(tmp_path / str(run), kind, kills=5, seed=run)]
    print(f"\n| {kind} | {len(seconds)} | {statistics.median(seconds):.3f} | {max(seconds):.3f} | all balanced |")
    assert len(seconds) == 20
    assert max(seconds) < NOTICED


def test_several_die_at_the_same_moment(tmp_path: Path) -> None:
    def script(run: Run) -> None:
        run.go_on()
        run.kill("actor-0", "actor-1", "policy-agent-0", "trainer-agent-0")
        run.go_on()
        run.kill("actor-1", "trainer-agent-0")
        run.go_on()

    outcome, _ = train(experiment(placement={"actors": 2, "inference": "worker"}), tmp_path, script)
    check(outcome, 6)


def test_an_actor_dies_long_after_a_trainer(tmp_path: Path) -> None:
    """The checkpoint that the trainer went on from has been removed since."""

    def script(run: Run) -> None:
        run.go_on()
        (config,) = tmp_path.glob("base/*/config.yaml")
        kept = CheckpointStore(config.parent / "checkpoints")  # there once the first checkpoint is
        run.until(lambda _: bool(kept.versions()), "checkpoint")
        run.kill("trainer-agent-0")
        gone = kept.latest().version
        run.until(lambda _: gone not in kept.versions(), "end of that checkpoint")
        run.kill("actor-0")
        run.go_on()

    tree = experiment(placement={"actors": 2}, checkpoint={"every": "0.2s", "keep": 1})
    outcome, _ = train(tree, tmp_path, script)
    check(outcome, 2)


def test_replicas_in_step_that_die_together_come_back_once(tmp_path: Path) -> None:
    def script(run: Run) -> None:
        run.go_on()
        run.kill("trainer-agent-0", "trainer-agent-1")
        run.go_on()

    outcome, _ = train(experiment(placement={"trainers": 2}), tmp_path, script)
    assert len(restarts(outcome.folder)) in (1, 2)  # 2: one was seen dead while the other still lay dying
    check(outcome, len(restarts(outcome.folder)))
    lives = {line["time/elapsed"]: line["update"] for line in rows(outcome.folder)}
    gaps = [later - earlier for earlier, later in zip(sorted(lives), sorted(lives)[1:], strict=False)]
    assert max(gaps) < 5.0  # nobody waited for the end of a life that had just begun


def test_faults_on_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [
        "actor-0@step=300:kill", "actor-1@step=400:raise", "actor-1@step=500:hang",
        "trainer@update=4:kill", "trainer@update=5:raise", "policy@batch=200:kill", "policy@batch=300:raise",
    ]  # fmt: skip
    monkeypatch.setenv(VARIABLE, ", ".join(faults))

    def script(run: Run) -> None:
        run.until(lambda now: sum(worker["restarts"] for worker in now["workers"]) == len(faults), "deaths")
        run.go_on()

    tree = experiment(env={"timeout": "1s"}, placement={"actors": 2, "inference": "worker"})
    outcome, _ = train(tree, tmp_path, script)
    check(outcome, len(faults))
    causes = " ".join(text for _, text in restarts(outcome.folder))
    assert causes.count("ended by SIGKILL") == 3
    assert causes.count("RuntimeError: ordered by SHOAL_FAULT") == 3
    assert causes.count("a step took longer than env.timeout = 1 s") == 1


@pytest.mark.parametrize("policy", ["speaker", "listener"])
def test_a_trainer_of_two_policies_dies_in_the_update_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """The other is a round behind then, and the environment waits for both."""
    monkeypatch.setenv(VARIABLE, f"trainer-{policy}-0@update=3:kill")

    def script(run: Run) -> None:
        run.until(lambda now: any(worker["restarts"] for worker in now["workers"]), "death")
        run.go_on()

    tree = experiment(
        env={"id": "shoal/signal", "num_envs": 6}, algorithm={"unroll": 8, "minibatch": 16}, placement={"actors": 2}
    )
    outcome, _ = train(tree, tmp_path, script)
    check(outcome, 1)


def test_a_trainer_that_dies_while_it_should_hand_in_its_state(tmp_path: Path) -> None:
    """A run is told to stop while its trainer is on its way back: it is saved all the same, and soon."""

    def script(run: Run) -> None:
        run.go_on()
        run.kill("trainer-agent-0")

    outcome, _ = train(experiment(placement={"actors": 2}), tmp_path, script)
    assert (outcome.reason, len(restarts(outcome.folder))) == ("stopped by order", 1)
    assert saved(outcome) == outcome.version
