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

from shoal.api.messages import Note
from shoal.api.program import Process
from shoal.api.worker import Pulse
from shoal.checkpoints.store import CheckpointStore
from shoal.launchers import links, supervisor
from shoal.launchers.links import Attention, Limits, hung_before
from shoal.launchers.supervisor import Supervisor
from shoal.streams.control import ControlEnd
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard
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


def test_a_fork_server_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """Only it can tell that the worker which hangs has been ended."""
    took = 0.0

    def look(run: Run) -> None:
        nonlocal took
        run.go_on()
        server = int(Path(f"/proc/{run.worker('actor-0')['pid']}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(server, signal.SIGSTOP)
        before, began = stop(run, "actor-0"), time.monotonic()
        run.until(lambda _: run.worker("actor-0")["pid"] != before, "another actor-0")
        took = time.monotonic() - began
        run.go_on()

    with nothing_left():
        outcome, _ = train(hung("actor-0"), tmp_path, look)
    assert took < 8, "a second of silence; ten more if its end is waited for in vain"
    assert (outcome.folder / "events.jsonl").read_text().count("was started again") == 1, "the others worked on"


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


def sleeps(order: Any, control: Any) -> None:
    """A process that hangs before its own code runs."""
    time.sleep(600)


def test_a_process_that_never_arrives_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "ARRIVING", 0.5)
    with nothing_left():
        processes = Supervisor(sleeps, lambda process, number, life: None, tmp_path, 1)
        processes.start(Process("late", (), {}), 0, Life())
        began, limits, found = time.monotonic(), Limits(env=600, hang=0.5), []
        while not found and time.monotonic() < began + 20:
            processes.wait(0.05)
            found = list(processes.deaths(limits))
        processes.close()
    assert found
    assert "late was killed: it was not up within" in found[0].cause
    assert time.monotonic() - began > 0.9


def speaks_at_length(order: Any, control: Any) -> None:
    """A process that is in the middle of a message which nobody takes any more; then it ends."""
    ControlEnd(control).send(Note("a word " * 5_000_000))


def test_who_is_in_the_middle_of_a_long_message_ends_after_it(tmp_path: Path) -> None:
    with nothing_left():
        processes = Supervisor(speaks_at_length, lambda process, number, life: None, tmp_path, 1)
        processes.start(Process("long", (), {}), 0, Life())
        (link,) = processes.links
        processes.wait(20)  # it has begun
        began, running = time.monotonic(), link.running
        monitored: list[int | None] = []
        close, running.close = running.close, lambda: (monitored.append(running.exitcode), close())[1]  # type: ignore
        processes.close()
        took = time.monotonic() - began
    assert monitored == [0], "it was not killed"
    assert took < supervisor.PATIENCE


def test_who_hung_before_it_was_told_to_stop_is_not_waited_for() -> None:
    assert hung_before(Pulse(silent=3.1), 0.7), "for 2.4 seconds already"
    assert not hung_before(Pulse(silent=2.9), 0.5), "not long enough to be sure"
    assert not hung_before(Pulse(silent=4.3), 4.0), "it is ending"
    assert not hung_before(Pulse(silent=4.3, longest=2.5), 0.5), "its minibatches take as long"
    assert not hung_before(Pulse(silent=9.0, allowed=60.0), 0.5), "it is being built"


def test_what_is_being_built_has_its_time() -> None:
    board = HeartbeatBoard.create(1)
    place, limits = board.place(0), Limits(env=0.0, hang=0.0)
    place.begin(600, in_env=True)
    assert board.pulse(0).allowed == 600
    assert limits.exceeded("it", board.pulse(0)) is None
    place.rest()
    assert board.pulse(0).allowed == 0
    assert board.pulse(0).longest == 0, "how long that took says nothing of how it works"
    assert limits.exceeded("it", board.pulse(0)) is not None
    board.close()


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
