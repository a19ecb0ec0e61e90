"""What a person at the terminal is told of a run, by the run itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment
from shoal.monitoring.run_facts import RunFacts
from shoal.runs import train

SETTINGS: dict[str, Any] = {
    "env": {"id": "CartPole-v1", "num_envs": 8},
    "algorithm": {"name": "ppo", "unroll": 32, "minibatch": 64},
    "model": {"name": "mlp", "hidden": [16]},
    "log": {"tensorboard": False},
}


class Told:
    """A view that keeps what it is told."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        self.states: list[tuple[str, str | None]] = []

    def write(self, row: dict[str, Any]) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...

    def state(self, word: str, reason: str | None = None) -> None:
        self.states.append((word, reason))


def told(monkeypatch: pytest.MonkeyPatch, root: Path, **sections: Any) -> Told:
    views: list[Told] = []

    def view(facts: RunFacts) -> Told:
        views.append(Told(facts))
        return views[0]

    monkeypatch.setattr(train, "TerminalView", view)
    shoal.train(Experiment.parse({**SETTINGS, **sections}), root=root, on="inline")
    return views[0]


def test_a_reached_goal_was_confirmed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = told(monkeypatch, tmp_path, stop={"return": 5, "episodes": 2, "steps": 50_000}, seed=9)
    assert [word for word, _ in view.states] == ["running", "confirming", "stopping", "reached"]
    assert (view.states[-1][1] or "").startswith("stop.return = 5 reached: greedy mean")
    assert view.facts.title == "experiment: ppo, seed 9"


def test_facts_of_policies_with_algorithms_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"algorithm": {"name": "dqn", "unroll": 4, "capacity": 1000}}
    view = told(
        monkeypatch, tmp_path, env={"id": "tests.launchers.duel:pair", "num_envs": 8}, stop={"updates": 1},
        agents={"player_0": "one", "player_1": "other"}, policies={"one": {}, "other": own},
    )  # fmt: skip
    assert view.facts.title == "experiment: ppo, dqn, seed 1"
    assert view.facts.of("one").metrics[0] == "approx_kl"
    assert view.facts.of("other").metrics[0] == "td_error"
