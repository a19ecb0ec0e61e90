"""Workers that hang, whatever they hang in: killed and started again; and a run that is to end does not wait for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from shoal.api.program import Process
from shoal.api.worker import Pulse
from shoal.checkpoints.store import CheckpointStore
from shoal.launchers import links, supervisor
from shoal.launchers.links import Attention, Limits
from shoal.workers.context import Life
from tests.launchers.live import Run, experiment, train
from tests.launchers.processes import nothing_left

DQN: dict[str, Any] = {"name": "dqn", "unroll": 8, "warmup": 64, "capacity": 4096}
ROLES: dict[str, dict[str, Any]] = {
    "trainer-agent-0": {"placement": {"actors": 1}},
    "trainer-agent-1": {"placement": {"trainers": 2}},
    "actor-0": {"placement": {"actors": 2}},
    "policy-agent-0": {"placement": {"actors": 2, "inference": "worker"}},
    "buffer-agent-0": {"placement": {"actors": 2, "buffers": 2}, "learns": DQN},
    "evaluation": {"placement": {"actors": 1}, "evaluation": {"every": "1000000 updates", "episodes": 2}},
    "confirmation": {"placement": {"actors": 1}, "stop": {"return": 1e9}},
}


def hung(role: str, **sections: Any) -> Any:
    """An experiment in which a process of that role may be stopped. Within a second of silence it counts as hung."""
    found = {key: dict(value) for key, value in ROLES[role].items()}
    found["placement"] |= {"hang": 1.0}
    found["env"] = {"timeout": 1.0}
    for name, values in sections.items():
        found[name] = {**found.get(name, {}), **values}
    return experiment(**found)


def stop(run: Run, name: str) -> int:
    pid: int = run.worker(name)["pid"]
    os.kill(pid, signal.SIGSTOP)
    return pid


@pytest.mark.parametrize("role", ROLES)
def test_a_process_that_hangs_is_started_again(role: str, tmp_path: Path) -> None:
    def look(run: Run) -> None:
        run.go_on()
        before = stop(run, role)
        run.until(lambda _: run.worker(role)["pid"] != before, f"another {role}")
        run.go_on()

    with nothing_left():
        outcome, _ = train(hung(role), tmp_path, look)
    events = (outcome.folder / "events.jsonl").read_text()
    assert "was killed: " in events
    assert "was started again" in events


@pytest.mark.parametrize("role", ROLES)
def test_a_run_that_is_to_end_does_not_wait_for_who_hangs(role: str, tmp_path: Path) -> None:
    """Far below `placement.hang`."""
    asked = 0.0

    def look(run: Run) -> None:
        nonlocal asked
        run.go_on()
        stop(run, role)
        asked = time.monotonic()

    with nothing_left():
        outcome, _ = train(
            hung(role, placement={"hang": 600.0}, env={"timeout": 600.0}, checkpoint={"every": "1 updates"}),
            tmp_path,
            look,
        )
    assert time.monotonic() - asked < 12, (
        "three seconds until it is taken for hung, five to end: twice that on a busy machine"
    )
    assert CheckpointStore(outcome.folder / "checkpoints").versions()
    events = (outcome.folder / "events.jsonl").read_text()
    if role.startswith("trainer"):
        assert "no last checkpoint: trainer" in events
        assert "updates are lost" in events


def test_the_clock_is_obeyed_when_nobody_says_anything(tmp_path: Path) -> None:
    def look(run: Run) -> None:
        run.go_on()
        stop(run, "trainer-agent-0")
        run.gone()

    began = time.monotonic()
    outcome, _ = train(
        hung("trainer-agent-0", stop={"seconds": 4.0}, placement={"hang": 600.0}), tmp_path, look, stop=False
    )
    assert outcome.reason == "stop.seconds = 4 reached"
    assert time.monotonic() - began < 30


def never_begins(order: None, connection: Any) -> None:
    """In a process that hangs before it gives a sign of life."""
    time.sleep(600)


def test_who_hangs_before_the_first_sign_of_life_is_seen_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_SIGN", 0.5)
    monkeypatch.setattr(supervisor, "PATIENCE", 0.5)
    with nothing_left():
        processes = supervisor.Supervisor(never_begins, lambda *_: None, tmp_path, 1)
        try:
            processes.start(Process("silent", (), {}), 0, Life())
            limits, deadline = Limits(env=0.5, hang=0.5), time.monotonic() + 20
            while not (found := list(processes.deaths(limits))):
                assert time.monotonic() < deadline, "nobody sees it"
                time.sleep(0.05)
        finally:
            processes.close()
    assert "silent was killed: it gave no sign of life" in found[0].cause


def test_silence_counts_only_while_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(links.time, "monotonic", lambda: now)
    attention = Attention()
    attention.look()
    now += 3600  # the launcher was stopped, and so was everybody
    attention.look()
    assert attention.heard(Pulse(silent=3600.0)).silent == 0.0
    for _ in range(70):
        now += 1
        attention.look()
    assert attention.heard(Pulse(silent=3670.0)).silent == 70.0
    assert Limits(env=60, hang=60).exceeded("it", attention.heard(Pulse(silent=3670.0))) is not None


def test_who_is_stopped_ends_with_the_main_process(tmp_path: Path) -> None:
    code = "import shoal; shoal.train(shoal.Experiment.parse({tree}), trial='one', quiet=True)"
    tree = {"env": "CartPole-v1", "placement": {"actors": 2}, "name": "left", "log": {"tensorboard": False}}
    main = subprocess.Popen([sys.executable, "-c", code.format(tree=tree)], cwd=tmp_path)
    run = Run(tmp_path / "runs")
    workers = [line["pid"] for line in run.until(lambda now: now["update"] > 1, "an update")["workers"]]
    os.kill(workers[0], signal.SIGSTOP)
    main.kill()
    main.wait()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline, "somebody is left"
        time.sleep(0.05)
