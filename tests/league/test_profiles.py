"""Games of three, and of two of whom one does not lose what the other wins: what members earn, and mixtures of them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.api.env import Array
from shoal.api.experiment import EnvConfig, Experiment
from shoal.api.league import MATCH, LeagueConfig, Member
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.envs.games.table import Table
from shoal.league import meta_solvers
from shoal.league.journal import Journal
from shoal.league.meta_solvers import MetaSolver
from shoal.league.profiles import JointPayoffs, Profiles
from shoal.league.schemes import scheme_of
from shoal.league.standings import Standings
from shoal.program.expand import expand
from shoal.testing.exploitability import Strategy, best_response, mixture, nash_conv, uniform, values

pytest.importorskip("pyspiel", reason="open_spiel comes with the dev extra")


def match(profile: list[Member], earned: list[float], number: int) -> list[tuple[float, ...]]:
    """As the journal has it."""
    (asker, own), *others = profile
    return [
        (asker, opponent, 0, 1, own, member, 0, 3, number % 7, number, earned[0], earned[place])
        for place, (opponent, member) in enumerate(others, 1)
    ]


def journal(*matches: list[tuple[float, ...]]) -> Array:
    return np.array([record for each in matches for record in each], MATCH)


# ---------------------------------------------------------------- the table


def test_equal_agents_have_one_cell_for_all_orders() -> None:
    joint = JointPayoffs(3, equal=True)
    joint.add(journal(match([(0, 1), (0, 0), (0, 0)], [4.0, -1.0, -3.0], 1)))
    joint.add(journal(match([(0, 0), (0, 1), (0, 0)], [1.0, 0.0, -1.0], 2), match([(0, 1)] * 3, [1.0, 2.0, 6.0], 3)))
    tables = joint.tables([[(0, 0), (0, 1)]])
    assert tables[0][1, 0, 0] == tables[1][0, 1, 0] == tables[2][0, 0, 1] == 2.0  # 4 and 0
    assert tables[0][0, 1, 0] == tables[2][1, 0, 0] == -1.0  # -1, -3, 1, -1
    assert tables[1][1, 1, 1] == 3.0
    assert tables[0][0, 0, 0] == 0.0


def test_sides_have_a_cell_for_each_order_and_a_payoff_for_each_side() -> None:
    joint = JointPayoffs(3, equal=False)
    joint.add(journal(match([(0, 1), (1, 0), (2, 0)], [1.0, 5.0, -2.0], 1)))
    first, second, third = joint.tables([[(0, 0), (0, 1)], [(1, 0)], [(2, 0)]])
    assert first[:, 0, 0].tolist() == [0.0, 1.0]
    assert (second[1, 0, 0], third[1, 0, 0]) == (5.0, -2.0)


def test_all_at_once_is_piece_by_piece_and_a_torn_match_counts_for_nothing() -> None:
    dice = np.random.default_rng(1)
    played = [
        match([(0, int(number)) for number in dice.integers(0, 3, 3)], dice.normal(size=3).tolist(), number)
        for number in range(60)
    ]
    whole, pieces, torn = (JointPayoffs(3, equal=True) for _ in range(3))
    whole.add(journal(*played))
    for each in played:
        pieces.add(journal(each))
    torn.add(journal(*played[:20], match([(0, 0)] * 3, [9.0] * 3, 99)[:1], *played[20:]))
    members = [[(0, number) for number in range(3)]]
    for other in (pieces, torn):
        assert all(np.allclose(a, b) for a, b in zip(whole.tables(members), other.tables(members), strict=True))


def test_the_profile_that_was_played_least_is_next() -> None:
    joint = JointPayoffs(2, equal=True)
    assert not joint.general
    joint.add(journal(match([(0, 0), (0, 1)], [1.0, 1.0], 1)))  # nobody loses what another wins
    assert joint.general
    wanted = Profiles(joint.profiles([[(0, 0), (0, 1)]]), joint, 2)
    assert (wanted.wanting, wanted.known(1)) == (True, False)
    assert wanted.choose([]) == ((0, 0), (0, 0))
    assert wanted.choose([((0, 0), (0, 0))]) == ((0, 1), (0, 1))
    for number in range(2, 8):
        profile = wanted.choose([])
        if profile is not None:
            joint.add(journal(match(list(profile), [0.5, 0.5], number)))
    assert wanted.choose([]) is None
    assert (wanted.wanting, wanted.known(2)) == (False, True)


# ---------------------------------------------------------------- mixtures


def psro(solver: str, *, equal: bool, parties: int) -> tuple[Standings, Any]:
    players = {"main": "main"} if equal else dict.fromkeys("abc"[:parties], "main")
    config = LeagueConfig.parse({"players": players, "match": {"name": "psro", "solver": solver}}, at="league")
    standings = Standings(config, equal=equal, parties=parties)
    return standings, scheme_of(config)


@pytest.mark.parametrize("solver", ["replicator", "regret_matching", "alpha_rank", "uniform"])
def test_the_mixture_of_a_prisoners_dilemma_defects(solver: str) -> None:
    """Member 0 is silent, member 1 tells: what two of a kind earn decides, and is known."""
    pays = {(0, 0): (5, 5), (0, 1): (0, 10), (1, 1): (1, 1)}
    standings, scheme = psro(solver, equal=True, parties=2)
    for number in (0, 1):
        standings.apply({"kind": "froze", "player": "main", "number": number, "steps": 0, "version": 0})
    for count, ((first, second), earned) in enumerate(pays.items()):
        standings.add(journal(match([(0, first), (0, second)], list(earned), count)))
    shares = scheme.shares(standings, 0)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares[0, 1] == pytest.approx(0.5) if solver == "uniform" else shares[0, 1] > 0.99


def test_three_sides_are_mixed_each_for_itself() -> None:
    """Only side c matters to anybody, and its member 1 pays everyone more."""
    standings, scheme = psro("replicator", equal=False, parties=3)
    for player in "abc":
        for number in (0, 1):
            standings.apply({"kind": "froze", "player": player, "number": number, "steps": 0, "version": 0})
    cells = np.ndindex(2, 2, 2)
    played = [match([(0, a), (1, b), (2, c)], [c, c, c], n) for n, (a, b, c) in enumerate(cells)]
    standings.add(journal(*played))
    shares = scheme.shares(standings, 0)
    assert set(shares) == {(1, 0), (1, 1), (2, 0), (2, 1)}
    assert shares[2, 1] > 0.99
    assert shares[1, 0] == pytest.approx(0.5)


def three_at_kuhn() -> Table:
    from shoal.envs.openspiel import OpenSpielEnv
    from shoal.envs.openspiel_rules import OpenSpielRules

    env = make_env(EnvConfig(id="openspiel/kuhn_poker", kwargs={"players": 3}), 1)
    assert isinstance(env, OpenSpielEnv)
    return Table(OpenSpielRules(env))


SOLVERS: dict[str, MetaSolver] = {
    "replicator": partial(meta_solvers.replicator, steps=3_000),
    "regret_matching": partial(meta_solvers.regret_matching, steps=1_000),
    "uniform": meta_solvers.uniform,
}


@pytest.mark.parametrize("solver", SOLVERS)
def test_best_answers_to_mixtures_bring_three_players_of_kuhn_poker_near_an_equilibrium(solver: str) -> None:
    """PSRO with an exact oracle, and payoffs of three computed on the table."""
    table = three_at_kuhn()
    members: list[list[Array]] = [[own] for own in uniform(table)]
    joint: Strategy = uniform(table)
    first = found = nash_conv(table, joint)
    for _ in range(5):
        for player in range(3):
            members[player].append(best_response(table, joint, player)[1])
        shape = tuple(len(own) for own in members)
        tables = [np.zeros(shape) for _ in range(3)]
        for place in np.ndindex(*shape):
            earned = values(table, [own[index] for own, index in zip(members, place, strict=True)])
            for player in range(3):
                tables[player][place] = earned[player]
        mixed = SOLVERS[solver](tables)
        joint = [mixture(table, members[player], mixed[player], player) for player in range(3)]
        found = nash_conv(table, joint)
    print(f"{solver}: {first:.3f} -> {found:.3f}")
    assert found < 0.25 * first


# ---------------------------------------------------------------- runs


def experiment(**changes: Any) -> Experiment:
    tree = {
        "env": {"id": "openspiel/kuhn_poker", "num_envs": 9, "kwargs": {"players": 3}}, "name": "three",
        "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 64}, "model": {"name": "mlp", "hidden": [8]},
        "league": {"match": {"name": "psro", "solver": "replicator"}, "freeze": {"steps": 400}, "games": 5},
        "stop": {"steps": 900}, "log": {"tensorboard": False}, **changes,
    }  # fmt: skip
    return Experiment.parse(tree)


SIDES = {"agents": {"player_0": "a", "player_1": "b", "player_2": "c"}}


@pytest.mark.parametrize("sided", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_league_of_three(tmp_path: Path, sided: bool) -> None:
    """Equal agents, or a player for each seat: every match is a record for each opponent, and mixtures follow from all of them."""
    league = {"match": {"name": "psro", "solver": "regret_matching"}, "freeze": {"steps": 400}, "games": 5}
    changes = {**SIDES, "league": {**league, "players": dict.fromkeys("abc", "main")}} if sided else {}
    folder = shoal.train(experiment(**changes), root=tmp_path, on="inline", quiet=True).folder
    matches = Journal(folder / "league").matches()
    for measured in (0, 1):
        own = matches[matches["measured"] == measured]
        assert len(own) > 20
        assert (own["slot"][::2] == own["slot"][1::2]).all()
        assert (own["earned"][::2] == own["earned"][1::2]).all()
        assert np.allclose(own["earned"][::2] + own["against"][::2] + own["against"][1::2], 0.0)
    lines = [json.loads(line) for line in (folder / "league/decisions.jsonl").read_text().splitlines()]
    odds = [line["odds"] for line in lines if line["kind"] == "odds"]
    assert len(odds) >= 2
    for given in odds[-1].values():
        assert sum(given.values()) == pytest.approx(1.0, abs=0.01)
    if sided:
        assert {name.partition("-")[0] for name in odds[-1]["a"]} == {"b", "c"}


def test_nash_is_for_two() -> None:
    league = {"match": {"name": "psro", "solver": "nash"}}
    with pytest.raises(InputError, match="solver = 'nash' is for two, and here 3 play: choose replicator"):
        expand(experiment(league=league))
