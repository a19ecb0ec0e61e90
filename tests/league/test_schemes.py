"""Schemes and roles: whom a player meets, by what is known of everyone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.api.league import LIVE, MATCH, LeagueConfig, Member
from shoal.base.errors import InputError
from shoal.league.schemes import normalised, scheme_of
from shoal.league.standings import Standings


def league(match: Any, players: dict[str, str] | None = None, held: list[Member] | None = None) -> Standings:
    config = LeagueConfig.parse({"match": match, "players": players or {"main": "main"}})
    standings = Standings(config, equal=True)
    for player, number in held or []:
        name = standings.players[player]
        standings.apply({"kind": "froze", "player": name, "number": number, "steps": 0, "version": 0})
    return standings


def play(standings: Standings, first: Member, second: Member, wins: int, losses: int, paid: float = 1.0) -> None:
    matches = np.zeros(wins + losses, MATCH)
    matches["asker"], matches["own"] = first
    matches["opponent"], matches["member"] = second
    matches["earned"] = paid * np.repeat([1.0, -1.0], [wins, losses])
    matches["against"] = -matches["earned"]
    standings.payoffs.add(np.random.default_rng(0).permutation(matches))


def shares(standings: Standings, player: int = 0) -> dict[Member, float]:
    return normalised(scheme_of(standings.config).shares(standings, player))


THREE: list[Member] = [(0, 0), (0, 1), (0, 2)]


def test_latest_meets_itself() -> None:
    assert shares(league("latest", held=THREE)) == {(0, LIVE): 1.0}


def test_uniform_meets_all_members() -> None:
    assert shares(league("uniform", held=THREE)) == dict.fromkeys(THREE, pytest.approx(1 / 3))


@pytest.mark.parametrize(("curve", "first", "last"), [("hard", {2}, 0), ("even", {1, 2}, 0), ("variance", {1}, 0)])
def test_pfsp_prefers_by_its_curve(curve: str, first: set[int], last: int) -> None:
    standings = league({"name": "pfsp", "curve": curve}, {"main": "main", "other": "league_exploiter"}, THREE)
    for number, wins in enumerate([99, 50, 20]):
        play(standings, (1, LIVE), (0, number), wins, 100 - wins)
    found = shares(standings, 1)
    assert max(found, key=lambda member: found[member])[1] in first
    assert min(found, key=lambda member: found[member]) == (0, last)


@pytest.mark.parametrize("curve", ["hard", "even", "variance"])
def test_who_beats_everyone_meets_everyone(curve: str) -> None:
    """Where the formula of win rates alone gives 0/0."""
    standings = league({"name": "pfsp", "curve": curve}, held=THREE)
    for member in THREE:
        play(standings, (0, LIVE), member, 5000, 0)
    found = shares(standings)
    assert np.isfinite(list(found.values())).all()
    assert found[0, 0] == pytest.approx(found[0, 2], rel=0.01)
    assert sum(found.values()) == pytest.approx(1.0)


def test_roles_share_out_their_games() -> None:
    players = {"main": "main", "hunter": "main_exploiter", "scout": "league_exploiter"}
    standings = league("pfsp", players, [(0, 0), (1, 0), (2, 0)])
    main, hunter, scout = (shares(standings, player) for player in range(3))
    assert main[0, LIVE] == pytest.approx(0.35)
    assert main[1, 0] == pytest.approx(0.5 / 3 + 0.15)  # that of the exploiter is one it has to beat
    assert hunter == {(0, LIVE): 1.0}
    assert set(scout) == {(0, 0), (1, 0), (2, 0)}


def test_an_exploiter_that_cannot_win_learns_against_members_first() -> None:
    standings = league("pfsp", {"main": "main", "hunter": "main_exploiter"}, [(0, 0), (0, 1), (1, 0)])
    play(standings, (1, LIVE), (0, LIVE), 1, 60)
    assert set(shares(standings, 1)) == {(0, 0), (0, 1)}


@pytest.mark.parametrize("solver", ["nash", "regret_matching", "fictitious_play", "replicator", "alpha_rank"])
def test_psro_mixes_rock_paper_scissors(solver: str) -> None:
    standings = league({"name": "psro", "solver": solver}, held=THREE)
    for first, second in [((0, 0), (0, 2)), ((0, 1), (0, 0)), ((0, 2), (0, 1))]:
        play(standings, first, second, 40, 0)
    assert shares(standings) == dict.fromkeys(THREE, pytest.approx(1 / 3, abs=0.02))


def test_psro_by_a_function_of_ones_own() -> None:
    standings = league({"name": "psro", "solver": "shoal.league.meta_solvers:uniform"}, held=THREE)
    assert shares(standings) == dict.fromkeys(THREE, pytest.approx(1 / 3))


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"match": "pfps"}, "did you mean 'pfsp'"),
        ({"match": {"name": "pfsp", "curve": "soft"}}, "league.match.curve"),
        ({"match": {"name": "psro", "solver": "nahs"}}, "did you mean 'nash'"),
        ({"match": "psro", "games": 0}, "league.games = 0"),
        ({"match": "uniform", "players": {"a": "main", "b": "main_exploiter"}}, "exploiters are for pfsp"),
    ],
)
def test_mistakes_are_one_line(config: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text) as caught:
        scheme_of(LeagueConfig.parse(config))
    assert "\n" not in str(caught.value)


def test_the_widest_interval_is_measured_next() -> None:
    standings = league("uniform", held=THREE)
    play(standings, (0, 0), (0, 1), 20, 0)
    play(standings, (0, 0), (0, 2), 10, 10)
    play(standings, (0, 1), (0, 2), 11, 9)
    pairs = standings.pairs()
    assert pairs.choose([]) == ((0, 0), (0, 2))
    assert pairs.choose([((0, 0), (0, 2))] * 3) == ((0, 1), (0, 2))
    for first, second in [((0, 0), (0, 1)), ((0, 0), (0, 2)), ((0, 1), (0, 2))]:
        play(standings, first, second, 20, 0)
    assert pairs.choose([]) is None
    assert not pairs.wanting
