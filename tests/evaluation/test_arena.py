"""Games of any two players: who plays which agents, and what comes of it by the seed of a job alone."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shoal.api.env import Array, Episode
from shoal.api.experiment import Experiment, load_experiment
from shoal.api.program import Program
from shoal.envs import make_env
from shoal.evaluation.arena import Arena, Job, Manner, earned
from shoal.evaluation.sides import both_ways, opposed
from shoal.program.expand import expand, find_opponents
from shoal.recipes import find


def program(env: str, **more: Any) -> Program:
    return expand(Experiment.parse({"env": {"id": env, "num_envs": 2}, **more}), against=[])


def own_agents(wanted: Program) -> list[dict[str, list[int]]]:
    """By side: the agents of the first player."""
    return [
        {group: [number for number, place in enumerate(places) if place.own] for group, places in side.items()}
        for side in both_ways(wanted)
    ]


def test_equal_agents_are_one_role_on_two_sides() -> None:
    for wanted in (program("shoal/kuhn"), expand(load_experiment(find("connect-four"), []), against=[])):
        assert own_agents(wanted) == [{"player": [0]}, {"player": [1]}]
        assert len(opposed(both_ways(wanted))) == 1


def test_a_league_plays_as_its_first_player() -> None:
    league = program("shoal/kuhn", league={"match": "uniform"})
    assert own_agents(league) == [{"player": [0]}, {"player": [1]}]
    assert opposed(both_ways(league)) == ["main"]


def test_where_one_side_only_looks_on_both_are_played() -> None:
    mapped = program(
        "shoal/kuhn",
        agents={"player_0": "learner", "player_1": "rival"},
        policies={"learner": {}, "rival": {"play": "random"}},
    )
    assert own_agents(mapped) == [{"player": [0]}, {"player": [1]}]
    assert sorted(opposed(both_ways(mapped))) == ["learner", "rival"]


def test_teams_play_each_side() -> None:
    tag = program("shoal/tag", agents={"adversary_*": "chaser", "agent_*": "runner"})
    sides = [{group for group, own in side.items() if own} for side in own_agents(tag)]
    assert len(sides) == 2
    assert sides[0] != sides[1]


def played(wanted: Program, job: Job, *, draws: bool = True) -> Array:
    manner = Manner(both_ways(wanted), (draws,) * len(wanted.opponents), 0)
    with closing(make_env(wanted.experiment.env, manner.batch)) as env:
        return Arena(wanted, env, manner).play(job, lambda: None)[0]


def test_games_follow_from_their_job() -> None:
    wanted = program("shoal/kuhn")
    players = find_opponents(wanted, ["random", f"{__name__}:bold", f"{__name__}:timid"], opposed(both_ways(wanted)))
    wanted = replace(wanted, opponents=players)
    first = played(wanted, Job(0, 1, 20, 7))
    assert (played(wanted, Job(0, 1, 20, 7)) == first).all()
    assert (played(wanted, Job(0, 1, 20, 8)) != first).any()
    assert first["side"].tolist() == [0, 1] * 10
    assert (first["earned"] == -first["against"]).all()
    always = played(wanted, Job(1, 2, 8, 0))
    assert (always["earned"] == 1).all(), "whoever always bets takes the ante of whoever never does"


def test_what_sides_earn() -> None:
    wanted = program("shoal/tag", agents={"adversary_*": "chaser", "agent_*": "runner"})
    side = both_ways(wanted)[0]
    returns = {group: np.arange(1.0, len(places) + 1) for group, places in side.items()}
    (ours,) = [values for group, values in returns.items() if side[group][0].own]
    (theirs,) = [values for group, values in returns.items() if not side[group][0].own]
    assert earned(side, Episode(0, 1, returns)) == (pytest.approx(ours.mean()), pytest.approx(theirs.mean()))


def bold(observation: Array, mask: Array, noise: Array) -> Array:
    return np.ones(len(noise), np.int64)


def timid(observation: Array, mask: Array, noise: Array) -> Array:
    return np.zeros(len(noise), np.int64)
