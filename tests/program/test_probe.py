"""`placement: auto`: what was said stands, what was measured decides, and what was chosen is written down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment, load_experiment
from shoal.api.program import Program
from shoal.api.worker import Heartbeat
from shoal.monitoring.run_folder import RunFolder
from shoal.program import measuring, probe
from shoal.program.env_facts import inspect_env
from shoal.program.expand import expand
from shoal.program.measuring import Bench, Cost, measure, measure_threads
from shoal.program.probe import choose_background, choose_placement


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


def measured(
    monkeypatch: pytest.MonkeyPatch,
    whole: tuple[float, ...],
    share: tuple[float, ...],
    threads: dict[int, float] | None = None,
) -> list[Sequence[int]]:
    """Let a round take so many seconds to sample, to learn from and for one step of it, in one process and in a replica's share;
    and to learn from by threads. Returns which numbers of threads were measured."""
    compared: list[Sequence[int]] = []

    def measure(program: Program, heartbeat: Heartbeat, enough: float = 0.0) -> Cost:
        return Cost(*(whole if program.trainers == 1 else share))

    def by_threads(program: Program, heartbeat: Heartbeat, counts: Sequence[int]) -> dict[int, float]:
        compared.append(counts)
        assert threads is not None, "learning is cheap here"
        return {count: threads[count] for count in counts}

    monkeypatch.setattr(probe, "measure", measure)
    monkeypatch.setattr(probe, "measure_threads", by_threads)
    return compared


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

    def play_round(bench: Bench) -> Cost:
        played.append(len(bench.actors))
        return Cost(0.05, 0.05)

    monkeypatch.setattr(measuring, "play_round", play_round)
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
    monkeypatch.delattr(probe, "measure")
    assert shape(experiment()) == (None, 1, None)


@pytest.mark.parametrize("said", [{"actors": 2}, {"trainers": 2}, {"together": True}])
def test_what_was_said_stands(said: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(probe, "measure")
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


# ---------------------------------------------------------------- threads

COSTLY, CHEAP = 2e-3, 0.4e-3
"""Seconds of an optimiser's step: of a wide network, and of a small one."""


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe.os, "sched_getaffinity", lambda _: set(range(6)))


def threads(experiment: Experiment) -> int | str:
    return choose_placement(experiment)[0].placement.threads


@pytest.mark.usefixtures("cores")
def test_costly_steps_get_the_idle_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = measured(monkeypatch, (0.01, 0.10, COSTLY), (0.01, 0.09), {1: 0.08, 2: 0.048})
    chosen, why = choose_placement(experiment())
    assert (chosen.placement.threads, chosen.placement.trainers, compared) == (2, 1, [[1, 2]])
    assert why == (
        "placement: one process, 2 threads (70 ms a round), instead of one process (110 ms a round), "
        "2 actors with trainers in step (100 ms a round)"
    )
    assert expand(chosen).threads == 2


@pytest.mark.usefixtures("cores")
def test_cheap_steps_are_not_even_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = measured(monkeypatch, (0.01, 0.10, CHEAP), (0.01, 0.09))
    chosen, _ = choose_placement(experiment())
    assert compared == []
    assert expand(chosen).threads == 1


@pytest.mark.usefixtures("cores")
def test_threads_must_be_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, (0.01, 0.10, COSTLY), (0.01, 0.10), {1: 0.10, 2: 0.09})
    chosen, why = choose_placement(experiment())
    assert expand(chosen).threads == 1
    assert str(why).endswith("would save 9% of this run, less than the 15% that threads or processes must be worth")


@pytest.mark.usefixtures("cores")
def test_shapes_are_compared_with_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes in step, or an actor beside the trainer, where they are worth more than threads are."""
    by_threads = {1: 0.10, 2: 0.08}
    measured(monkeypatch, (0.01, 0.10, COSTLY), (0.005, 0.05, COSTLY), by_threads)
    assert shape(experiment()) == (None, 2, None)
    assert threads(experiment()) == "auto"
    measured(monkeypatch, (0.10, 0.10, COSTLY), (0.10, 0.10, COSTLY), by_threads)
    assert (shape(experiment({"max_lag": 1})), threads(experiment({"max_lag": 1}))) == ((1, None, None), 1)


@pytest.mark.usefixtures("many_cores")
def test_actors_and_threads_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = measured(monkeypatch, (0.10, 0.40, COSTLY), (0.1, 0.4, COSTLY), {1: 0.40, 2: 0.21, 4: 0.12, 6: 0.10})
    chosen, why = choose_placement(experiment({"max_lag": 1}))
    assert compared == [[1, 2, 4, 6]]
    assert (chosen.placement.actors, chosen.placement.threads) == (2, 4)
    assert "2 actors beside the trainer, 4 threads (120 ms a round), instead of" in str(why)


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize("said", [{"threads": 1}, {"threads": 2}, {"exact": True}])
def test_threads_that_were_said_stand_and_exact_runs_have_one(
    said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = measured(monkeypatch, (0.01, 0.10, COSTLY), (0.01, 0.10, COSTLY))
    chosen, why = choose_placement(experiment(said))
    assert compared == []
    assert expand(chosen).threads == said.get("threads", 1)
    assert ("one process, 2 threads" in str(why)) == (said.get("threads") == 2)


@pytest.mark.usefixtures("cores")
def test_one_copy_can_still_be_learned_from_by_two(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = {"id": "CartPole-v1", "num_envs": 1}
    measured(monkeypatch, (0.01, 0.10, COSTLY), (1.0, 1.0), {1: 0.10, 2: 0.06})
    assert threads(experiment(env=alone)) == 2
    measured(monkeypatch, (0.01, 0.10, CHEAP), (1.0, 1.0))
    chosen, why = choose_placement(experiment(env=alone))
    assert (expand(chosen).threads, str(why)) == (
        1, "placement: one process (110 ms a round): there is nothing to share out",
    )  # fmt: skip


# ---------------------------------------------------------------- measuring


def replaying(**algorithm: Any) -> Program:
    return expand(
        experiment(
            algorithm={"name": "dqn", "unroll": 4, "batch": 32, "updates": 3, "warmup": 5_000, **algorithm},
            placement={"trainers": 1},
        )
    )


def test_a_run_that_replays_is_measured_as_it_learns() -> None:
    """Not as it fills its buffer: that is over soon."""
    cost = measure(replaying(), Heartbeat())
    assert cost.step > 0
    assert cost.train == pytest.approx(3 * cost.step, rel=0.5)


def test_learning_is_timed_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(measuring, "LONG", 60.0)
    played = measuring.play_round

    def play_round(bench: Bench) -> Cost:
        seen.append(bench.trainers[0].threads)
        return played(bench)

    monkeypatch.setattr(measuring, "play_round", play_round)
    found = measure_threads(replaying(), Heartbeat(), [1, 2])
    assert seen == [1, *[1, 2] * measuring.TURNS]
    assert set(found) == {1, 2}
    assert min(found.values()) > 0


# ---------------------------------------------------------------- background


@pytest.mark.parametrize(("waited", "pays"), [(0.9, True), (0.4, True), (0.2, False), (0.0, False)])
def test_a_ring_of_environments_that_wait_steps_in_threads(
    waited: float, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two wait together: half of the waiting is saved, and that must be 15 % of the round."""
    monkeypatch.setattr(probe, "measure", lambda *_: Cost(1.0, 0.1, waited=waited))
    ring = experiment({"ring": 2, "inference": "worker"})
    chosen, why = choose_background(ring, inspect_env(ring), Heartbeat())
    assert chosen.env.background is pays
    assert str(why).startswith(f"env.background: {str(pays).lower()}, environments wait for {waited:.0%} of the time")
    assert chosen.placement == ring.placement


@pytest.mark.parametrize("settings", [{"placement": "auto"}, {"placement": {"ring": 2}, "background": False}])
def test_nobody_looks_where_there_is_no_ring_or_it_is_said(settings: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.setattr(probe, "measure", lambda *_: pytest.fail("measured"))
    env = {"id": "CartPole-v1", "num_envs": 8, "background": settings.get("background")}
    said = experiment(settings["placement"], env=env)
    assert choose_background(said, inspect_env(said), Heartbeat()) == (said, None)


@pytest.mark.parametrize(("env_id", "waits"), [("tests.envs.slow_envs:Resting", True), ("CartPole-v1", False)])
def test_sleep_is_seen_and_work_is_none(env_id: str, waits: bool) -> None:
    env = {"id": env_id, "num_envs": 4}
    ring = experiment({"ring": 2}, env=env, algorithm={"name": "ppo", "unroll": 16, "minibatch": 32})
    assert choose_background(ring, inspect_env(ring), Heartbeat())[0].env.background is waits
