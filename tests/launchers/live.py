"""A live run, and somebody who looks at it, gives it orders and kills its processes while it trains."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import shoal
from shoal.api.experiment import Experiment
from shoal.base.errors import ShoalError
from shoal.checkpoints.store import CheckpointStore
from shoal.monitoring.run_folder import RunFolder
from shoal.runs.outcome import Outcome
from shoal.runs.panel import ask
from shoal.streams.sample import OUTCOMES

PATIENCE = 60.0
"""Seconds that a run has for whatever is waited for."""


def experiment(*, learns: dict[str, Any] | None = None, **sections: Any) -> Experiment:
    """A small task that never ends by itself; `learns`: another way to learn it."""
    tree: dict[str, Any] = {
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "algorithm": learns or {"name": "ppo", "unroll": 32, "minibatch": 64},
        "model": {"name": "mlp", "hidden": [16]},
        "stop": {},
        "placement": {},
        "log": {"tensorboard": False},
        "checkpoint": {},
        "name": "base",
    }
    for name, values in sections.items():
        tree[name] = {**tree.get(name, {}), **values}
    return Experiment.parse(tree)


class Run:
    """The one run below `root`, seen from another thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.kills: list[float] = []
        """When somebody was killed, by the wall clock."""

    def ask(self, order: str) -> dict[str, Any]:
        """Over its socket, once it has one."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for config in self._root.glob("*/*/config.yaml"):
                with contextlib.suppress(ShoalError):
                    return ask(RunFolder(config.parent), order)
            time.sleep(0.01)
        raise AssertionError("the run does not answer")

    def status(self) -> dict[str, Any]:
        return self.ask("status")

    def worker(self, name: str) -> dict[str, Any]:
        return next(line for line in self.status()["workers"] if line["name"] == name)

    def gone(self) -> None:
        """Until nobody answers any more: the run has ended."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                for config in self._root.glob("*/*/config.yaml"):
                    ask(RunFolder(config.parent), "status")
            except ShoalError:
                return
            time.sleep(0.05)
        raise AssertionError("the run goes on")

    def until(self, condition: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """The first status for which it holds."""
        deadline = time.monotonic() + PATIENCE
        while not condition(now := self.status()):
            assert time.monotonic() < deadline, f"no {what} within {PATIENCE:g} s: {now}"
            time.sleep(0.01)
        return now

    def go_on(self, updates: int = 3) -> None:
        """Until so many updates have been made."""
        began = self.status()["update"]
        self.until(lambda now: now["update"] >= began + updates, f"{updates} updates after {began}")

    def kill(self, *names: str) -> None:
        """All at the same moment; until they live again."""
        before = {name: self.worker(name)["pid"] for name in names}
        self.kills.append(time.time())
        for process in set(before.values()):
            os.kill(process, signal.SIGKILL)
        for name in names:
            self.until(lambda _, name=name: self.worker(name)["pid"] != before[name], f"new life of {name}")  # type: ignore[misc]

    def kill_again_and_again(self, name: str, kills: int, dice: random.Random) -> None:
        """At moments that nobody chose, in the middle of whatever it does."""
        for _ in range(kills):
            self.go_on(2)
            time.sleep(dice.uniform(0.0, 0.1))
            self.kill(name)
        self.go_on()


def train(
    tree: Experiment, root: Path, script: Callable[[Run], None], on: str = "local", *, stop: bool = True
) -> tuple[Outcome, Run]:
    """Train while `script` runs beside it; when that is through, or if it fails, the run is told to stop."""
    run, failures = Run(root), []

    def act() -> None:
        try:
            script(run)
        except BaseException as error:
            failures.append(error)
        if stop or failures:
            with contextlib.suppress(AssertionError):
                run.ask("stop")

    thread = threading.Thread(target=act)
    thread.start()
    try:
        outcome = shoal.train(tree, root=root, on=on, quiet=True)
    finally:
        thread.join()
    if failures:
        raise failures[0]
    return outcome, run


def rows(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def notes(folder: Path) -> list[tuple[float, str]]:
    """When, by the wall clock, and what was said."""
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [(datetime.fromisoformat(e["time"]).timestamp(), e["text"]) for e in events if e["kind"] == "note"]


def restarts(folder: Path) -> list[tuple[float, str]]:
    return [note for note in notes(folder) if "was started again" in note[1]]


def noticed_after(run: Run, folder: Path) -> list[float]:
    """Seconds from each kill to the next line that speaks of a death."""
    moments = [moment for moment, _ in restarts(folder)]
    return [next(moment for moment in moments if moment >= kill - 0.001) - kill for kill in run.kills]


def balanced(row: dict[str, float]) -> bool:
    """Rows are produced, then in flight, then trained or dropped for a reason: none is missing."""
    settled = sum(row[f"rows/{name}"] for name in OUTCOMES)
    return row["rows/produced"] == settled + row["rows/in_flight"]


def check(outcome: Outcome, deaths: int) -> None:
    """The run went on through that many deaths: each was counted, no row is missing, and updates only ever grow."""
    lines = rows(outcome.folder)
    assert len(restarts(outcome.folder)) == deaths
    assert sum(row.get("rollout/restarts", 0) for row in lines) == deaths
    assert all(balanced(row) for row in lines)
    updates = [row["update"] for row in lines]
    assert updates == sorted(set(updates))
    assert saved(outcome) == outcome.version


def saved(outcome: Outcome) -> int:
    """The version that the run left behind."""
    return CheckpointStore(outcome.folder / "checkpoints").latest().version
