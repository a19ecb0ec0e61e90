"""What Prometheus is told of a population, from its first turn to its last."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shoal.api.population import BudgetConfig, SweepConfig
from shoal.base.errors import InputError
from shoal.monitoring.run_folder import RunFolder
from shoal.population import exporter
from shoal.population.start import Options, run
from shoal.population.state import State
from shoal.population.sweep import Sweep
from tests.monitoring.test_prometheus import samples
from tests.monitoring.watching import NO_PROMTOOL, entries, fetch
from tests.population.small import swept, values

pytest.importorskip("prometheus_client", reason="an extra: prometheus")


class Scraped(Sweep):
    """Asks for the page whenever the population looks whether it is over."""

    def __init__(self, root: Path, seeds: int) -> None:
        super().__init__(SweepConfig(seeds=seeds), 1)
        self.root = root
        self.pages: list[str] = []
        self.found: dict[str, str] = {}

    def over(self, state: State) -> str | None:
        found = entries(self.root)
        self.found |= found
        self.pages.append(fetch(f"http://{found['pond/']}/metrics"))
        return super().over(state)


@NO_PROMTOOL
def test_the_page_of_a_population_says_how_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "BEAT", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    strategy = Scraped(tmp_path, seeds=2)
    settings = values(log={"tensorboard": False, "prometheus": {"port": port}}, stop={"steps": 256})
    options = Options("pond", root=tmp_path, parallel=1, quiet=True)
    ended = run(settings, [], options, lambda experiment, folder, slots: (strategy, BudgetConfig()))
    assert strategy.found["pond/"] == f"127.0.0.1:{port}"
    own = RunFolder(ended.folder / "seed-1").read_config()["log"]["prometheus"]
    assert own["port"] == 0, "members are served at free ports"
    assert entries(tmp_path) == {}, "it ended"
    pages = [samples(page) for page in strategy.pages]
    states: list[dict[str, Any]] = [page["shoal_population_members"] for page in pages[1:]]
    assert [2] * len(states) == [sum(each.values()) for each in states]
    assert states[0]['state="running"'] == 1
    assert pages[1]["shoal_population_busy_slots"] == pages[1]["shoal_population_slots"] == {"": 1}
    assert "shoal_population_best_score" not in pages[1], "nobody has a score yet"
    last, members = pages[-1], ended.state.members.values()
    assert last["shoal_population_members"]['state="ended"'] == 2
    assert last["shoal_population_turns_total"] == {"": 2}
    assert last["shoal_population_crashes_total"] == last["shoal_population_copies_total"] == {"": 0}
    assert last["shoal_population_env_steps_total"] == {"": ended.state.steps}
    assert last["shoal_population_core_seconds_total"][""] == pytest.approx(ended.state.core_seconds)
    assert last["shoal_population_best_score"][""] == max(each.score.mean for each in members if each.score)
    assert not [name for name in last if not name.startswith("shoal_population_")]
    done = subprocess.run(["promtool", "check", "metrics"], input=strategy.pages[-1], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_port_in_use_is_one_line_before_anything_is_written(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"^log\.prometheus\.port = {port} is in use"):
            swept(tmp_path / "runs", log={"prometheus": {"port": port}})
    assert not (tmp_path / "runs").exists()


def test_copies_and_crashes_are_counted() -> None:
    state = State([{"kind": "member", "member": name, "words": [], "reason": ""} for name in ("a", "b")])
    copied = {
        "kind": "copied", "member": "a", "origin": "b", "version": 1, "steps": 8, "order": 0, "scores": [{"steps": 8, "mean": 3.0}],
    }  # fmt: skip
    state.apply({"kind": "compared", "number": 0, "steps": 8, "decisions": [copied]})
    state.apply({"kind": "crashed", "member": "b", "reason": "it fell"})
    now = exporter.standing(state, 4, busy=1, steps=8, paused=True)
    assert (now.copies, now.crashes, now.turns, now.best) == (1, 1, 0, 3.0)
    assert now.members["waiting"] == 2
