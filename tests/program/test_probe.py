"""`placement: auto`: what was said stands, what was measured decides, and what was chosen is written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment, load_experiment
from shoal.api.program import Program
from shoal.api.worker import Heartbeat, Worker
from shoal.monitoring.run_folder import RunFolder
from shoal.program import probe
from shoal.program.probe import choose_placement


def experiment(placement: Any = "auto", **sections: Any) -> Experiment:
    return Experiment.parse(
        {
            "env": {"id": "CartPole-v1", "num_envs": 8},
            "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 32},
            "model": {"name": "mlp", "hidden": [16]},
            "stop": {"steps": 10_000_000},
            "placement": placement,
            **sections,
        }
    )


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe.os, "sched_getaffinity", lambda _: {0, 1})


def measured(monkeypatch: pytest.MonkeyPatch, whole: tuple[float, float], share: tuple[float, float]) -> None:
    """Let a round take so many seconds to sample and to learn from, in one process and in a replica's share."""

    def measure(program: Program, heartbeat: Heartbeat, enough: float = 0.0) -> tuple[float, float]:
        return whole if program.trainers == 1 else share

    monkeypatch.setattr(probe, "_measure", measure)


def shape(experiment: Experiment) -> tuple[int | None, int | None, bool | None]:
    placement = choose_placement(experiment)[0].placement
    return placement.actors, placement.trainers, placement.together


@pytest.mark.usefixtures("cores")
def test_a_short_run_stays_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, (0.05, 0.05), (0.02, 0.02))
    assert shape(experiment(stop={"steps": 1000})) == (None, 1, None)
    assert shape(experiment(stop={"updates": 3})) == (None, 1, None)


@pytest.mark.usefixtures("cores")
def test_one_round_shows_that_a_run_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[int] = []

    def round_(actors: list[Worker], trainers: list[Worker], steps: int) -> tuple[float, float]:
        played.append(len(actors))
        return 0.05, 0.05

    monkeypatch.setattr(probe, "_round", round_)
    assert shape(experiment(stop={"updates": 100})) == (None, 1, None)
    assert played == [1]
    assert shape(experiment(stop={"updates": 200})) == (None, 1, None)
    assert played == [1, 1, 1, 1, 1], "two in one process and two in a share: replicas are no faster here"


@pytest.mark.usefixtures("cores")
def test_replicas_where_they_save_much(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, (0.05, 0.05), (0.025, 0.03))
    assert shape(experiment()) == (None, 2, None)
    measured(monkeypatch, (0.05, 0.05), (0.045, 0.045))
    assert shape(experiment()) == (None, 1, None)


@pytest.mark.usefixtures("cores")
def test_the_line_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, (0.2, 0.04), (0.15, 0.042))
    short = experiment(stop={"updates": 80})
    one, two = "one process (240 ms a round)", "2 actors with trainers in step (192 ms a round)"
    assert choose_placement(short)[1] == (
        f"placement: {one}; {two} would save 10% of this run, less than the 15% that processes must be worth"
    )
    assert choose_placement(experiment())[1] == f"placement: {two}, instead of {one}"
    tiny = experiment(stop={"updates": 3})
    assert choose_placement(tiny)[1] == f"placement: {one}: the run is too short to pay for more processes"
    measured(monkeypatch, (0.2, 0.04), (0.2, 0.05))
    assert str(choose_placement(short)[1]).endswith("would save nothing, starting them included")


@pytest.mark.usefixtures("cores")
def test_a_run_that_only_time_ends_pays_for_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, (0.05, 0.05), (0.025, 0.03))
    assert shape(experiment(stop={"seconds": 3600})) == (None, 2, None)


@pytest.mark.usefixtures("cores")
def test_actors_beside_the_trainer_where_lag_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, (0.05, 0.05), (0.045, 0.045))
    assert shape(experiment({"max_lag": 1})) == (1, None, None)
    measured(monkeypatch, (0.05, 0.05), (0.02, 0.02))
    assert shape(experiment({"max_lag": 1})) == (None, 2, None)


@pytest.mark.usefixtures("cores")
def test_a3c_is_replicas_whatever_the_probe_would_say() -> None:
    chosen = experiment(algorithm={"name": "a3c", "unroll": 16})
    assert shape(chosen) == (None, 2, None)


def test_one_core_needs_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe.os, "sched_getaffinity", lambda _: {0})
    monkeypatch.delattr(probe, "_measure")
    assert shape(experiment()) == (None, 1, None)


@pytest.mark.parametrize("said", [{"actors": 2}, {"trainers": 2}, {"together": True}])
def test_what_was_said_stands(said: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(probe, "_measure")
    tree = experiment(said)
    assert choose_placement(tree) == (tree, None)


def test_a_real_probe_is_short_and_its_answer_is_written_down(tmp_path: Path) -> None:
    tree = load_experiment(
        None, ["env.id=CartPole-v1", "env.num_envs=8", "stop.updates=2", "name=auto", "placement=auto"]
    )
    outcome = shoal.train(tree, root=tmp_path, on="local", quiet=True)
    placement = RunFolder(outcome.folder).read_config()["placement"]
    unsaid = [name for name, value in placement.items() if value is None]
    assert unsaid == ["envs_per_actor", "pin"]  # of ranges of actors; cores are counted wherever a run goes on
    assert (placement["trainers"], placement["together"]) == (1, True)
    assert "placement: one process" in (outcome.folder / "events.jsonl").read_text()
