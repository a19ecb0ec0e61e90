"""How runs end: by Ctrl-C, by SIGTERM to all their processes, by the death of the main process, by envs that fail for ever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import shoal
from shoal.api.messages import Message
from shoal.api.orders import Order, Save
from shoal.base.errors import EXIT_INTERRUPTED, EXIT_WRONG_INPUT, InputError, ShoalError
from shoal.checkpoints.store import CheckpointStore
from shoal.launchers.links import Death, Limits, Link
from shoal.launchers.orders import OrderBook
from shoal.launchers.supervisor import Supervisor
from tests.launchers.live import Run, check, experiment, restarts, rows, saved, train
from tests.launchers.processes import alive, below, family, nothing_left, wait_for

SHAPES: dict[str, dict[str, Any]] = {
    "actors and policy workers": {"actors": 2, "inference": "worker"},
    "together, in step": {"trainers": 2},
    "hogwild": {"actors": 2, "trainers": 2, "agree": "hogwild"},
    "together with policy workers": {"together": True, "inference": "worker"},
}


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.mark.parametrize("shape", SHAPES)
def test_ctrl_c_saves_in_every_shape(tmp_path: Path, shape: str) -> None:
    pressed = []

    def script(run: Run) -> None:
        run.go_on()
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    outcome, _ = train(experiment(placement=SHAPES[shape]), tmp_path, script, stop=False)
    assert time.monotonic() - pressed[0] < 10
    assert outcome.interrupted
    assert outcome.reason == "interrupted by SIGINT"
    assert saved(outcome) == outcome.version == rows(outcome.folder)[-1]["update"]


@pytest.mark.parametrize("shape", ["actors and policy workers", "together, in step"])
def test_ctrl_c_while_a_trainer_is_dead(tmp_path: Path, shape: str) -> None:
    pressed = []

    def script(run: Run) -> None:
        run.go_on()
        trainer = run.worker("trainer-agent-0")["pid"]
        os.kill(trainer, signal.SIGKILL)
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    outcome, _ = train(experiment(placement=SHAPES[shape]), tmp_path, script, stop=False)
    assert time.monotonic() - pressed[0] < 10
    assert outcome.interrupted
    assert saved(outcome) == outcome.version


def test_who_is_killed_before_its_answer_is_heard_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replicas in step go down with the one that died: what they said since the launcher listened last is lost."""
    give, deaths, heard = OrderBook.give, Supervisor.deaths, Supervisor.heard
    victim: list[int] = []
    killed = answered = False

    def killed_before(self: OrderBook, to: str, order: Order) -> list[str]:
        nonlocal killed
        if isinstance(order, Save) and to == "trainer-agent-0" and not killed:
            os.kill(victim[0], signal.SIGKILL)
            killed = True
        return give(self, to, order)

    def heard_too_late(self: Supervisor) -> Iterator[tuple[Link, Message]]:
        return iter(()) if killed and not answered else heard(self)

    def seen_late(self: Supervisor, limits: Limits) -> Iterator[Death]:
        nonlocal answered
        if killed and not answered:
            time.sleep(0.5)
            answered = True
        return deaths(self, limits)

    monkeypatch.setattr(OrderBook, "give", killed_before)
    monkeypatch.setattr(Supervisor, "deaths", seen_late)
    monkeypatch.setattr(Supervisor, "heard", heard_too_late)

    def script(run: Run) -> None:
        run.go_on()
        victim.append(run.worker("trainer-agent-0")["pid"])
        os.kill(os.getpid(), signal.SIGINT)

    began = time.monotonic()
    outcome, _ = train(experiment(placement=SHAPES["together, in step"]), tmp_path, script, stop=False)
    assert time.monotonic() - began < 30
    assert answered
    assert outcome.interrupted
    assert saved(outcome) == outcome.version


def test_what_is_saved_last_is_what_was_counted(tmp_path: Path) -> None:
    """However long others take to say what they hold, the trainer learns no more once it has said what it has learned."""
    late = {"late": f"{Path(__file__).with_name('late_answer.py')}:LateSpec"}
    placement = {"actors": 1, "max_lag": 0}

    def script(run: Run) -> None:
        run.go_on()
        os.kill(os.getpid(), signal.SIGINT)

    outcome, _ = train(experiment(placement=placement, workers=late), tmp_path / "stopped", script, stop=False)
    same = experiment(placement=placement, stop={"updates": outcome.version})
    whole = shoal.train(same, root=tmp_path / "whole", on="inline", quiet=True)
    stopped, counted = (CheckpointStore(each.folder / "checkpoints").latest() for each in (outcome, whole))
    assert (stopped.version, stopped.meta["steps"]) == (counted.version, counted.meta["steps"])
    policy = [name for name in stopped.tensors if name.startswith("agent/policy")]
    assert policy
    assert all(torch.equal(stopped.tensors[name], counted.tensors[name]) for name in policy)


# ---------------------------------------------------------------- runs in processes of their own


def started(tmp_path: Path, shapes: dict[str, dict[str, Any]]) -> dict[Path, subprocess.Popen[str]]:
    """One run of each shape, each the leader of a group, some updates old."""
    runs = {}
    for number, placement in enumerate(shapes.values()):
        words = [f"placement.{name}={str(value).lower()}" for name, value in placement.items()]
        command = [sys.executable, "-m", "shoal.cli", "train", "cartpole", "--on", "local", "--trial", str(number)]
        goals = ["stop.return=null", "stop.steps=null", "log.tensorboard=false"]
        process = subprocess.Popen(
            [*command, *goals, *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        runs[tmp_path / "runs/cartpole" / str(number)] = process
    for folder in runs:
        metrics = folder / "metrics.jsonl"
        assert wait_for(lambda metrics=metrics: metrics.exists() and metrics.stat().st_size > 0, 120)  # type: ignore[misc]
    return runs


@pytest.mark.slow
def test_when_the_main_process_is_killed_nothing_is_left(tmp_path: Path) -> None:
    runs = started(tmp_path, SHAPES)
    children = set().union(*(below(process.pid) for process in runs.values()))
    assert len(children) >= 2 * len(runs) + 4 + 2 + 4 + 2
    for process in runs.values():
        process.kill()
        process.communicate()
    assert wait_for(lambda: not alive(children), 5)


def test_sigterm_to_all_processes_saves(tmp_path: Path) -> None:
    """As batch systems do it: the workers must not be gone before they have handed in what they know."""
    ((folder, process),) = started(tmp_path, {"": SHAPES["actors and policy workers"]}).items()
    children = below(process.pid)
    os.killpg(process.pid, signal.SIGTERM)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == EXIT_INTERRUPTED
    assert "interrupted by SIGTERM" in out
    assert not restarts(folder)
    lines = rows(folder)
    assert CheckpointStore(folder / "checkpoints").latest().version == lines[-1]["update"]
    assert wait_for(lambda: not alive(children), 5)


def test_the_fork_server_may_die_too(tmp_path: Path) -> None:
    """All hosts go down with it, and come back under a new one; none is there twice."""

    def script(run: Run) -> None:
        run.go_on()
        before = {worker["pid"] for worker in run.status()["workers"]}
        (server,) = {family()[process] for process in before}
        os.kill(server, signal.SIGKILL)
        run.until(lambda now: not before & {worker["pid"] for worker in now["workers"]}, "new lives")
        run.go_on()
        assert not alive(before)

    outcome, _ = train(experiment(placement={"actors": 2}), tmp_path, script)
    check(outcome, 3)


# ---------------------------------------------------------------- environments that fail


@pytest.mark.parametrize("background", [False, True])
def test_a_world_that_hangs_is_killed_after_its_timeout(tmp_path: Path, background: bool) -> None:
    def script(run: Run) -> None:
        run.until(lambda now: all(w["restarts"] for w in now["workers"] if w["kind"] == "actor"), "deaths")
        run.go_on()

    env = {"id": "tests.launchers.broken:hanging", "num_envs": 2, "timeout": "1s", "background": background}
    tree = experiment(env=env, algorithm={"minibatch": 64}, placement={"actors": 2, "max_lag": 1})
    outcome, _ = train(tree, tmp_path, script)
    told = restarts(outcome.folder)
    check(outcome, len(told))
    assert len(told) >= 2
    assert all("a step took longer than env.timeout = 1 s" in text for _, text in told)


def test_a_world_that_fails_once_is_started_again(tmp_path: Path) -> None:
    def script(run: Run) -> None:
        run.until(lambda now: any(worker["restarts"] for worker in now["workers"]), "death")
        run.go_on()

    env = {"id": "tests.launchers.broken:raising_once", "num_envs": 2, "kwargs": {"mark": str(tmp_path / "mark")}}
    tree = experiment(env=env, algorithm={"minibatch": 64}, placement={"actors": 1})
    outcome, _ = train(tree, tmp_path / "runs", script)
    check(outcome, 1)
    assert "ZeroDivisionError: after 50 steps" in restarts(outcome.folder)[0][1]


def test_wrong_input_that_only_a_worker_finds_ends_the_run_at_once_with_code_2(tmp_path: Path) -> None:
    tree = experiment(env={"id": "tests.launchers.broken:picky", "num_envs": 4}, placement={"actors": 2})
    with pytest.raises(InputError, match="needs two copies") as caught:
        shoal.train(tree, root=tmp_path, on="local", quiet=True)
    assert caught.value.exit_code == EXIT_WRONG_INPUT
    (folder,) = tmp_path.glob("base/*")
    assert not restarts(folder)


def test_a_trainer_that_keeps_dying_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_FAULT", ",".join(["trainer@update=1:raise"] * 6))
    with pytest.raises(ShoalError, match=r"^[^\n]*ordered by SHOAL_FAULT[^\n]*\(6 crashes in a row") as caught:
        shoal.train(experiment(placement={"actors": 1}), root=tmp_path, on="local", quiet=True)
    assert caught.value.exit_code == 1
    (folder,) = tmp_path.glob("base/*")
    assert len(restarts(folder)) == 5


def test_a_checkpoint_that_does_not_fit_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    tree = experiment(placement={"actors": 1}, stop={"updates": 2})
    folder = shoal.train(tree, root=tmp_path, trial="a", on="local", quiet=True).folder
    before = (folder / "config.yaml").read_text()
    with pytest.raises(InputError, match=r"^(?=.{0,400}$).*does not fit"):
        shoal.resume("base", "a", overrides=["model.hidden=[8]"], root=tmp_path, on="local", quiet=True)
    assert (folder / "config.yaml").read_text() == before


def test_faults_are_read_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_FAULT", "actor@update=3:kill")
    with pytest.raises(InputError, match="SHOAL_FAULT=actor@update=3:kill: write one of"):
        shoal.train(experiment(placement={"actors": 1}), root=tmp_path, on="local", quiet=True)
    events = [
        json.loads(line) for path in tmp_path.glob("base/*/events.jsonl") for line in path.read_text().splitlines()
    ]
    assert events == []
