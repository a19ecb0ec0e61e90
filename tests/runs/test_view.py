"""What a person at the terminal is told of a run, by the run itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment
from shoal.monitoring.run_facts import RunFacts
from shoal.runs import train
from shoal.runs.facts import unused_settings

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
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def write(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def show(self, title: str, rows: list[dict[str, Any]]) -> None: ...

    def close(self) -> None: ...

    def state(self, word: str, reason: str | None = None) -> None:
        self.states.append((word, reason))


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[Told]:
    made: list[Told] = []

    def view(facts: RunFacts) -> Told:
        made.append(Told(facts))
        return made[-1]

    monkeypatch.setattr(train, "TerminalView", view)
    return made


def trained(root: Path, **sections: Any) -> None:
    shoal.train(Experiment.parse({**SETTINGS, **sections}), root=root, on="inline", trial="t")


def test_a_reached_goal_was_confirmed_first(tmp_path: Path, views: list[Told]) -> None:
    trained(tmp_path, stop={"return": 5, "episodes": 2, "steps": 50_000}, seed=9)
    (view,) = views
    assert [word for word, _ in view.states] == ["running", "confirming", "stopping", "reached"]
    assert (view.states[-1][1] or "").startswith("stop.return = 5 reached: greedy mean")
    assert view.facts.title == "experiment: ppo, seed 9"


def test_facts_of_policies_with_algorithms_of_their_own(tmp_path: Path, views: list[Told]) -> None:
    own = {"algorithm": {"name": "dqn", "unroll": 4, "capacity": 1000}}
    trained(
        tmp_path, env={"id": "tests.launchers.duel:pair", "num_envs": 8}, stop={"updates": 1},
        agents={"player_0": "one", "player_1": "other"}, policies={"one": {}, "other": own},
    )  # fmt: skip
    (view,) = views
    assert view.facts.title == "experiment: ppo, dqn, seed 1"
    assert view.facts.of("one").metrics[0] == "approx_kl"
    assert view.facts.of("other").metrics[0] == "td_error"


def test_a_finished_run_that_is_resumed_says_what_to_raise(tmp_path: Path, views: list[Told]) -> None:
    trained(tmp_path, stop={"updates": 2})
    train.resume("experiment", "t", root=tmp_path, on="inline")
    _, again = views
    assert "stop.updates = 2 was reached before: raise stop.updates to go on" in again.notes
    assert [row["update"] for row in again.rows] == [2], "the view is not empty"
    train.resume("experiment", "t", root=tmp_path, on="inline", overrides=["stop.updates=3"])
    assert [row["update"] for row in views[-1].rows] == [3]
    assert not [note for note in views[-1].notes if "raise" in note]


def test_resources_of_a_cluster_are_not_had_on_one_machine(tmp_path: Path, views: list[Told]) -> None:
    trained(tmp_path, stop={"updates": 1}, placement={"cluster": {"trainer": {"gpus": 1}}})
    assert views[0].notes[0].startswith("placement.cluster is ignored with --on inline: only --on ray reserves")
    experiment = Experiment.parse({**SETTINGS, "placement": {"cluster": {"trainer": {"gpus": 1}}}})
    (line,) = unused_settings(experiment, "ray")
    assert line == "placement.cluster.trainer.gpus is reserved and not used: its networks run on the CPU"
    assert (
        unused_settings(Experiment.parse(SETTINGS), "ray") == unused_settings(Experiment.parse(SETTINGS), "local") == []
    )
