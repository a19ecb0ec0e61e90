"""Versions evaluated beside training: no episode is played by two, nobody waits, and what a death costs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment
from shoal.api.program import CONTROLLER, MailboxStream
from shoal.base.faults import VARIABLE
from shoal.checkpoints.store import CheckpointStore
from shoal.monitoring.run_folder import RunFolder
from shoal.program.expand import expand
from shoal.program.report import plan_of
from shoal.runs.status import ended
from tests.launchers.live import Run, balanced, restarts, rows, train
from tests.launchers.processes import nothing_left

STATE = "tests.launchers.revealing:paying"


def experiment(
    *, world: dict[str, Any] | None = None, learns: dict[str, Any] | None = None, **sections: Any
) -> Experiment:
    return Experiment.parse(
        {
            "env": {"id": STATE, "num_envs": 4, "kwargs": world or {}, "timeout": 2},
            "algorithm": {"name": "tests.launchers.revealing:Counting", **(learns or {})},
            "placement": {"actors": 1, "max_lag": 1, "exact": False},  # saved in no time
            "evaluation": {"every": "5 updates", "episodes": 6},
            "log": {"tensorboard": False},
            "name": "judged",
            **sections,
        }
    )


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    with nothing_left():
        yield


def events(folder: Path, kind: str = "evaluation") -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def check_scores(folder: Path) -> list[dict[str, Any]]:
    """Each return is made of the actions of the one version that it is said to be of."""
    judged = events(folder)
    for event in judged:
        assert event["returns"] == [event["version"] * length for length in event["lengths"]]
        assert len(event["returns"]) == event["episodes"] == 6
    versions = [event["version"] for event in judged]
    assert versions == sorted(set(versions))
    return judged


def test_an_evaluation_has_a_process() -> None:
    program = expand(experiment())
    assert [worker.name for worker in program.processes[-1].workers] == ["evaluation"]
    assert len(expand(experiment(placement={"trainers": 1})).processes) == 2
    assert plan_of(program)["workers"]["evaluation worker"] == 1
    versions, evaluated = program.streams["version/agent"], program.streams["evaluated/agent"]
    assert isinstance(versions, MailboxStream)
    assert isinstance(evaluated, MailboxStream)
    assert (evaluated.writer, evaluated.readers) == (CONTROLLER, ("evaluation",))
    assert "evaluation" not in versions.users, "versions as they are published are nothing to it"


def test_clusters_may_have_one() -> None:
    """Parameters travel to its worker, and it reads nothing in the run's folder: machines need not share that."""
    pytest.importorskip("ray")
    from shoal.launchers.ray.cluster import check_shape

    program = expand(experiment())
    check_shape(program)
    (process,) = [process for process in program.processes if process.name == "evaluation"]
    own = {
        name
        for name, stream in program.streams.items()
        if isinstance(stream, MailboxStream) and process.name in stream.users
    }
    assert own == {"evaluated/agent"}


@pytest.mark.parametrize("on", ["local", "inline"])
def test_no_episode_mixes_versions(tmp_path: Path, on: str) -> None:
    """Training makes some hundred versions a second; episodes take up to 20 steps, some milliseconds each."""

    def script(run: Run) -> None:
        run.until(lambda now: (now["evaluated"] or 0) > 150, "evaluation")

    outcome, _ = train(experiment(world={"seconds": 0.001}), tmp_path, script, on=on)
    judged = check_scores(outcome.folder)
    assert len(judged) > 2
    assert outcome.version > 2 * len(judged), "versions passed between two that were judged"
    told = [row for row in rows(outcome.folder) if "eval/version" in row]
    assert len(told) > 2
    assert {row["eval/version"]: row["eval/mean_reward"] for row in told}.items() <= {
        event["version"]: event["mean_reward"] for event in judged
    }.items()
    assert all(row["eval/steps"] <= row["step"] for row in told)
    assert all(balanced(row) for row in rows(outcome.folder))


def test_training_does_not_wait(tmp_path: Path) -> None:
    """A fifth of a second a step: while the first version is evaluated, a hundred are made."""
    seen: list[int] = []

    def script(run: Run) -> None:
        first = run.until(lambda now: now["evaluating"] is not None, "evaluation")
        run.until(lambda now: now["update"] > first["update"] + 100, "100 updates")
        seen.append(run.status()["evaluating"] == first["evaluating"])

    tree = experiment(world={"seconds": 0.2}, evaluation={"every": "20 updates", "episodes": 6})
    outcome, _ = train(tree, tmp_path, script)
    assert seen == [True]
    assert not events(outcome.folder), "it ended before the first was through"


def test_the_newest_is_taken_and_the_others_are_counted(tmp_path: Path) -> None:
    tree = experiment(world={"seconds": 0.005}, evaluation={"every": "1 update", "episodes": 6})
    outcome, _ = train(
        tree, tmp_path, lambda run: run.until(lambda now: (now["evaluated"] or 0) > 30, "evaluations") and None
    )
    judged = check_scores(outcome.folder)
    assert sum(event["passed_over"] for event in judged) > len(judged)
    (cost,) = [e["text"] for e in events(outcome.folder, "note") if e["text"].startswith("evaluation: ")]
    assert f"evaluation: {len(judged)} versions in" in cost
    assert "passed over" in cost


def test_the_last_version_is_judged_too(tmp_path: Path) -> None:
    tree = experiment(stop={"updates": 20}, evaluation={"every": "1h", "episodes": 6}, placement={"trainers": 1})
    for on in ("inline", "local"):
        outcome = shoal.train(tree, root=tmp_path / on, on=on, quiet=True)
        (judged,) = check_scores(outcome.folder)
        assert (judged["version"], judged["steps"]) == (20, rows(outcome.folder)[-1]["step"])
        assert judged["best"]
        assert rows(outcome.folder)[-1]["eval/mean_reward"] == judged["mean_reward"]


def test_numbers_of_the_world_are_scored(tmp_path: Path) -> None:
    metrics = {"left": "max", "lift": "sum"}
    tree = experiment(stop={"updates": 5}, evaluation={"every": "1h", "episodes": 6, "metrics": metrics})
    outcome = shoal.train(tree, root=tmp_path, on="inline", quiet=True)
    (judged,) = check_scores(outcome.folder)
    assert judged["metrics"] == {"left": pytest.approx(sum(judged["lengths"]) / 6 - 1)}
    assert rows(outcome.folder)[-1]["eval/metrics/left"] == judged["metrics"]["left"]
    assert [note["text"] for note in events(outcome.folder, "note") if "lift" in note["text"]] == [
        "evaluation.metrics.lift: no info held 'lift' in 6 episodes"
    ]


def by_ppo(world: str, copies: int, evaluation: dict[str, Any], *, updates: int) -> Experiment:
    return Experiment.parse(
        {
            "env": {"id": world, "num_envs": copies},
            "algorithm": {"name": "ppo", "unroll": 32, "minibatch": 64},
            "model": {"name": "mlp", "hidden": [16]},
            "evaluation": evaluation,
            "stop": {"updates": updates},
            "placement": {"actors": 1},
            "log": {"tensorboard": False},
        }
    )


def test_equal_versions_have_equal_scores_under_every_launcher(tmp_path: Path) -> None:
    tree = by_ppo("CartPole-v1", 8, {"every": "2 updates", "episodes": 5}, updates=12)
    scores = {}
    for on in ("inline", "local"):
        outcome = shoal.train(tree, root=tmp_path / on, on=on, quiet=True)
        scores[on] = {event["version"]: event["returns"] for event in events(outcome.folder)}
    both = scores["inline"].keys() & scores["local"].keys()
    assert 12 in both
    assert all(version % 2 == 0 for by in scores.values() for version in by)
    assert all(scores["inline"][version] == scores["local"][version] for version in both)


def test_the_best_is_tagged_and_stays(tmp_path: Path) -> None:
    """Versions earn less and less: the first that was evaluated is the best, long after the newest have pushed others out."""
    tree = experiment(
        world={"falling": True},
        stop={"updates": 60},
        checkpoint={"keep": 1},
        evaluation={"every": "4 updates", "episodes": 6},
    )
    outcome = shoal.train(tree, root=tmp_path, on="inline", quiet=True)
    judged = events(outcome.folder)
    best = max(judged, key=lambda event: event["mean_reward"])
    store = CheckpointStore(outcome.folder / "checkpoints")
    assert len(judged) > 6
    assert best["version"] < judged[-1]["version"]
    assert store.tags() == {"best": best["version"]}
    assert {best["version"], outcome.version} <= set(store.versions())
    assert len(store.versions()) <= 6 < len(judged), (
        "the newest, the best, and those that were held when the last was saved"
    )
    scores, version = shoal.evaluate(str(outcome.folder), checkpoint="best", episodes=4)
    assert version == best["version"]
    assert scores.returns == [-version * length for length in scores.lengths]


# ---------------------------------------------------------------- stop.return


@pytest.mark.parametrize("on", ["local", "inline"])
def test_a_goal_is_reached_by_evaluations(tmp_path: Path, on: str) -> None:
    """Versions earn 3 to 20 times their number: 40 of them is far, and training returns are not looked at."""
    tree = experiment(stop={"return": 400, "episodes": 9}, learns={"seconds": 0.002})
    outcome = shoal.train(tree, root=tmp_path, on=on, quiet=True)
    *others, last = check_scores(outcome.folder)
    assert outcome.scores is not None
    assert outcome.scores.mean >= 400
    assert outcome.scores.returns == [last["version"] * length for length in outcome.scores.lengths]
    assert len(outcome.scores.returns) == last["confirmation"]["episodes"] == 9
    assert outcome.scores.lengths[:6] != last["lengths"], "fresh seeds"
    assert outcome.reason.startswith(f"stop.return = 400 reached by version {last['version']:,}: greedy mean")
    assert outcome.version >= last["version"]
    assert all(event["confirmation"] is None for event in others if event["mean_reward"] < 400)


# ---------------------------------------------------------------- deaths


def test_a_killed_evaluation_costs_what_it_played(tmp_path: Path) -> None:
    def script(run: Run) -> None:
        run.until(lambda now: now["evaluating"] is not None, "evaluation")
        run.kill_again_and_again("evaluation", 2, random.Random(1))
        before = run.status()["evaluated"] or 0
        run.until(lambda now: (now["evaluated"] or 0) > before, "evaluation after the deaths")

    outcome, _ = train(experiment(world={"seconds": 0.005}), tmp_path, script)
    assert check_scores(outcome.folder)
    assert len(restarts(outcome.folder)) == 2
    assert all(balanced(row) for row in rows(outcome.folder))


def test_a_hung_world_is_killed(tmp_path: Path) -> None:
    outcome, _ = train(
        experiment(world={"hangs": True}), tmp_path,
        lambda run: run.until(lambda _: run.worker("evaluation")["restarts"] > 0, "restart") and None,
    )  # fmt: skip
    assert "a step took longer than env.timeout = 2 s" in restarts(outcome.folder)[0][1]
    assert outcome.version > 20, "training went on"


def test_a_death_on_order_judges_the_same_version_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "evaluation@step=5:kill")
    tree = experiment(stop={"updates": 10}, evaluation={"every": "1h", "episodes": 6})
    outcome = shoal.train(tree, root=tmp_path, on="local", quiet=True)
    (judged,) = check_scores(outcome.folder)
    assert judged["version"] == 10
    assert len(restarts(outcome.folder)) == 1


def test_a_resumed_run_knows_what_was_judged(tmp_path: Path) -> None:
    tree = experiment(stop={"updates": 10}, evaluation={"every": "1h", "episodes": 6})
    shoal.train(tree, root=tmp_path, trial="a", on="local", quiet=True)
    again = shoal.resume("judged", "a", overrides=["stop.updates=20"], root=tmp_path, on="local", quiet=True)
    assert [(e["version"], e["best"]) for e in check_scores(again.folder)] == [(10, True), (20, True)]
    steps = [row["step"] for row in rows(again.folder)]
    assert steps == sorted(steps)


def test_every_policy_has_its_score(tmp_path: Path) -> None:
    tree = by_ppo("shoal/signal", 4, {"every": "1h", "episodes": 6}, updates=3)
    outcome = shoal.train(tree, root=tmp_path, on="local", quiet=True)
    (judged,) = events(outcome.folder)
    last = rows(outcome.folder)[-1]
    assert len(judged["policies"]) == 2
    for name, score in judged["policies"].items():
        assert last[f"eval/{name}/agent_return"] == score
    assert last["eval/game_return"] == judged["game_return"]
    assert ended(RunFolder(outcome.folder))["score"] == judged["mean_reward"]


def test_nobody_waits_for_the_last_score_after_a_second_order_to_stop(tmp_path: Path) -> None:
    def script(run: Run) -> None:
        run.until(lambda now: now["state"] == "stopping" and now["evaluating"] is not None, "last evaluation")

    tree = experiment(world={"seconds": 0.5}, stop={"updates": 5}, evaluation={"every": "1h", "episodes": 6})
    outcome, _ = train(tree, tmp_path, script)
    assert outcome.reason == "stop.updates = 5 reached"
    assert events(outcome.folder) == []
