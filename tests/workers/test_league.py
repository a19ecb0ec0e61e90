"""Leagues in whole runs: players meet members, only who asked learns, and what a league knows survives whatever dies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import shoal
from shoal.api.env import Array
from shoal.api.experiment import Experiment
from shoal.api.league import LIVE, LeagueConfig
from shoal.api.orders import LoadWeights
from shoal.base.errors import InputError
from shoal.league.journal import Journal
from shoal.league.payoffs import Payoffs
from shoal.league.standings import Standings
from shoal.program.expand import expand
from shoal.rollout.plans import Plans, load_ordered
from shoal.runs.evaluate import load_run


def experiment(**changes: Any) -> Experiment:
    values = {
        "env": {"id": "shoal/kuhn", "num_envs": 8},
        "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 64},
        "model": {"name": "mlp", "hidden": [16]},
        "league": {"match": "uniform", "freeze": {"steps": 500}, "keep": 3, "games": 10},
        "stop": {"steps": 3_000},
        **changes,
    }
    return Experiment.parse(values)


def standings(folder: Path, config: LeagueConfig, *, equal: bool = True) -> Standings:
    """All that is known of a league, from its journal alone."""
    journal, found = Journal(folder / "league"), Standings(config, equal=equal)
    for decision in journal.decisions():
        found.apply(decision)
    found.payoffs.add(journal.matches())
    return found


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_league_grows_and_meets_its_members(tmp_path: Path) -> None:
    wanted = experiment()
    assert wanted.league is not None
    folder = shoal.train(wanted, root=tmp_path, on="inline", quiet=True).folder
    found = standings(folder, wanted.league)
    assert len(found.frozen) >= 4
    assert len(found.held) == 3
    assert all((folder / "league" / f"main-{number}.safetensors").is_file() for _, number in found.frozen)
    matches = Journal(folder / "league").matches()
    trained, measured = matches[matches["measured"] == 0], matches[matches["measured"] == 1]
    assert set(trained["own"]) == {LIVE}
    assert {0, 1, 2} <= set(trained["member"])
    assert set(trained["side"]) == {0, 1}
    assert (trained["earned"] == -trained["against"]).all()
    pairs = {tuple(sorted(pair)) for pair in zip(measured["own"].tolist(), measured["member"].tolist(), strict=True)}
    assert all(pair[0] < pair[1] for pair in pairs)
    assert {"league/rating", "league/win_rate", "league/members", "league/share/main"} <= set().union(*rows(folder))


def test_who_asks_for_an_exact_league_is_told() -> None:
    program = expand(experiment(placement={"exact": True}))
    assert "only inline runs repeat" in program.policies["main"].facts.notes[-1]


def test_inline_leagues_repeat(tmp_path: Path) -> None:
    def played(name: str) -> Array:
        folder = shoal.train(experiment(), root=tmp_path / name, on="inline", quiet=True).folder
        return Journal(folder / "league").matches()

    assert (played("first") == played("second")).all()


def test_only_who_asked_learns(tmp_path: Path) -> None:
    """As many rows as its own agents made decisions: those of its rivals are nobody's."""
    wanted = experiment(league={"match": "uniform", "freeze": {"steps": 100_000}, "games": 0})
    folder = shoal.train(wanted, root=tmp_path, on="inline", quiet=True).folder
    last = rows(folder)[-1]
    # two moves or three in turn: without self-play about half of all decisions are the asker's
    assert last["rows/produced"] < 0.65 * last["step"]


def test_playing_itself_it_learns_from_both_sides(tmp_path: Path) -> None:
    wanted = experiment(league={"match": "latest", "freeze": {"steps": 100_000}, "games": 0})
    folder = shoal.train(wanted, root=tmp_path, on="inline", quiet=True).folder
    matches = Journal(folder / "league").matches()
    assert set(matches["member"]) == {LIVE}
    last = rows(folder)[-1]
    assert last["rows/produced"] > 0.8 * last["step"]


def test_a_resumed_league_is_the_same_league(tmp_path: Path) -> None:
    """What came after the checkpoint is cut off; members, games and ratings before it are as they were."""
    wanted = experiment(stop={"updates": 6}, checkpoint={"every": "100_000 updates"})
    assert wanted.league is not None
    folder = shoal.train(wanted, root=tmp_path, on="inline", quiet=True, trial="a").folder
    before, known = Journal(folder / "league").matches(), standings(folder, wanted.league)
    journal = Journal(folder / "league")
    journal.open()
    journal.append(before[:7])  # as if it had gone on, and died before it was saved
    journal.decide("froze", "too late", player="main", number=99, steps=10**9, version=0)
    journal.close()
    shoal.resume(wanted.name, "a", overrides=["stop.updates=10"], root=tmp_path, on="inline", quiet=True)
    after = Journal(folder / "league").matches()
    assert (after[: len(before)] == before).all()
    assert len(after) > len(before)
    grown = standings(folder, wanted.league)
    assert (0, 99) not in grown.frozen
    assert known.frozen.items() <= grown.frozen.items()


def with_psro(**changes: Any) -> Experiment:
    """Members join so fast that they are not measured in time."""
    league = {
        "match": {"name": "psro", "solver": "replicator", "start": "cold"},
        "freeze": {"steps": 500},
        "games": 2_000,
    }
    return experiment(**{"league": league, "stop": {"steps": 2_500}, **changes})


@pytest.mark.parametrize("on", ["inline", pytest.param("local", marks=pytest.mark.slow)])
def test_a_mixture_that_a_run_ends_with_is_that_of_all_games(tmp_path: Path, on: str) -> None:
    """The last member joins when the run is over, and the league measures on; what is saved is what was learned."""
    wanted = with_psro()
    assert wanted.league is not None
    folder = shoal.train(wanted, root=tmp_path, on=on, quiet=True).folder
    found = standings(folder, wanted.league)
    assert len(found.held) >= 4
    assert not found.pairs().wanting
    games = 2_000 * len(found.held) * (len(found.held) - 1) // 2
    *_, last = [line for line in Journal(folder / "league").decisions() if line["kind"] == "odds"]
    assert last["matches"] >= games, "after all of them"
    assert (Journal(folder / "league").matches()["measured"] == 1).sum() >= games
    assert "members play on until each two have met 2,000 times" in (folder / "events.jsonl").read_text()


def test_who_joins_at_the_end_begins_anew_when_the_run_goes_on(tmp_path: Path) -> None:
    """128 steps an update: it is due with the last one. The checkpoint is of what joined, not of one that begins."""
    wanted = with_psro(stop={"steps": 512})
    folder = shoal.train(wanted, root=tmp_path, on="inline", quiet=True, trial="a").folder

    def decisions() -> list[tuple[str, int | None]]:
        return [(each["kind"], each.get("number")) for each in Journal(folder / "league").decisions()]

    assert ("froze", 1) in decisions()
    assert ("reset", None) not in decisions()
    saved = load_run(str(folder)).plans["main"].copy_policy()[0].state_dict()
    member = load_file(folder / "league" / "main-1.safetensors")
    assert all(torch.equal(saved[name], tensor) for name, tensor in member.items())
    shoal.resume(wanted.name, "a", root=tmp_path, on="inline", quiet=True)
    assert ("reset", None) not in decisions(), "it was over, and still is"
    shoal.resume(wanted.name, "a", overrides=["stop.steps=768"], root=tmp_path, on="inline", quiet=True)
    assert decisions().count(("reset", None)) == 1


@pytest.mark.parametrize(
    "fault",
    [
        "league@match=3:kill",
        "league@freeze=3:kill",
        *(pytest.param(fault, marks=pytest.mark.slow) for fault in ("league@step=20:kill", "actor-0@step=400:kill")),
    ],
)
def test_whoever_dies_nothing_is_counted_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setenv("SHOAL_FAULT", fault)
    wanted = experiment(placement={"actors": 2}, stop={"steps": 8_000})
    assert wanted.league is not None
    folder = shoal.train(wanted, root=tmp_path, on="local", quiet=True).folder
    events = (folder / "events.jsonl").read_text()
    assert "was started again" in events
    matches = Journal(folder / "league").matches()
    trained = matches[matches["measured"] == 0]
    if fault.startswith("league"):  # an actor that dies counts its episodes anew
        places = np.stack([trained["slot"], trained["episode"]], axis=1)
        assert len(np.unique(places, axis=0)) == len(trained)
    found = standings(folder, wanted.league)
    assert len(found.frozen) >= 4
    numbers = sorted(number for _, number in found.frozen)
    assert numbers == list(range(len(numbers)))
    once = Payoffs()
    once.add(matches)
    assert (once.played == found.payoffs.played).all()


def test_two_sides_meet_members_of_the_other(tmp_path: Path) -> None:
    wanted = experiment(
        env={"id": "shoal/tag", "num_envs": 8, "kwargs": {"max_cycles": 10}},
        agents={"adversary_*": "chaser", "agent_*": "runner"},
        league={
            "players": {"chaser": "main", "runner": "main"}, "match": "uniform", "freeze": {"steps": 400}, "games": 4,
        },
        stop={"steps": 1_600},
    )  # fmt: skip
    folder = shoal.train(wanted, root=tmp_path, on="inline", quiet=True).folder
    matches = Journal(folder / "league").matches()
    assert set(zip(matches["asker"].tolist(), matches["opponent"].tolist(), strict=True)) == {(0, 1), (1, 0)}
    assert (matches["measured"] == 1).any()
    assert {"league/chaser/rating", "league/runner/win_rate"} <= set().union(*rows(folder))


def test_exploiters_begin_anew_once_they_are_frozen(tmp_path: Path) -> None:
    wanted = experiment(
        league={
            "players": {"main": "main", "hunter": "main_exploiter"}, "match": "pfsp", "freeze": {"steps": 1_000}, "games": 0,
        },
    )  # fmt: skip
    folder = shoal.train(wanted, root=tmp_path, on="inline", quiet=True).folder
    kinds = [(line["kind"], line.get("player")) for line in Journal(folder / "league").decisions()]
    assert ("reset", "hunter") in kinds
    assert ("reset", "main") not in kinds


def test_a_player_begins_anew_as_it_was_made() -> None:
    program = expand(experiment())
    plan = Plans(program)["main"]
    noise = torch.get_rng_state()
    made = {name: tensor.clone() for name, tensor in plan.algorithm.state_dict().items()}
    plan.algorithm.flat.parameters.add_(1.0)
    load_ordered(plan.algorithm, LoadWeights("main", "", 0, "main"), plan.spec)
    assert all(torch.equal(tensor, made[name]) for name, tensor in plan.algorithm.state_dict().items())
    assert torch.equal(torch.get_rng_state(), noise)


def test_other_commands_know_who_plays(tmp_path: Path) -> None:
    """Outside its league a policy meets opponents as any other does."""
    wanted = experiment(stop={"updates": 2})
    folder = shoal.train(wanted, root=tmp_path, on="inline", quiet=True).folder
    scores, _ = shoal.evaluate(str(folder), episodes=6, against=["random"])
    assert len(scores.matches) == 6
    assert list(shoal.load(folder).policies) == ["main"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"env": {"id": "CartPole-v1"}}, "one agent, which has nobody to meet"),
        ({"env": {"id": "shoal/tag"}}, "say with agents which player plays whom"),
        ({"policies": {"mian": {}}}, "did you mean 'main'"),
        ({"deal": "shuffled"}, "a league deals by itself"),
        ({"league": {"players": {"rival": "main"}}}, "opponents' seats"),
        ({"league": {"players": {"a": "league_exploiter"}}}, "none has the role main"),
        (
            {"env": {"id": "shoal/kuhn", "num_envs": 1}, "league": {"players": {"a": "main", "b": "main"}}},
            "needs a copy",
        ),
        ({"algorithm": {"name": "qmix"}}, "team"),
    ],
)
def test_leagues_that_cannot_be_are_one_line(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        expand(experiment(**changes))
