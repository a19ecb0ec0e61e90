"""When a league looks at its odds: a first idea of what a new member earns is enough for new ones, and all its games for better."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shoal.api.env import Array
from shoal.api.league import MATCH, LeagueConfig
from shoal.league.journal import Journal
from shoal.league.league import League
from shoal.league.schemes import scheme_of
from shoal.league.standings import Standings

GAMES = 40


def measured(first: int, second: int, games: int) -> Array:
    """The second wins all of them."""
    found = np.zeros(games, MATCH)
    found["measured"], found["own"], found["member"] = 1, first, second
    found["earned"], found["against"] = -1.0, 1.0
    return found


def league_of(folder: Path, games: int = GAMES) -> League:
    match = {"name": "psro", "solver": "regret_matching"}
    config = LeagueConfig.parse({"match": match, "games": games, "freeze": {"steps": 10}}, at="league")
    journal = Journal(folder)
    journal.open()
    league = League(Standings(config, equal=True), scheme_of(config), journal)
    league.begin()
    return league


def test_psro_looks_twice_for_each_member(tmp_path: Path) -> None:
    league = league_of(tmp_path)
    league.freeze(0, 0, steps=0, version=0, reason="its first version")
    assert league.look(league.standings.pairs())
    assert league.given == {"main": [[0, 0, 1.0]]}
    league.freeze(0, 1, steps=10, version=1, reason="steps")
    pairs = league.standings.pairs()
    league.hear(measured(0, 1, GAMES // 4 - 1))
    assert not league.look(pairs)
    league.hear(measured(0, 1, 1))
    assert league.look(pairs), "a quarter of all games tells that it is better"
    assert max(league.given["main"], key=lambda each: each[2])[:2] == [0, 1]
    league.hear(measured(0, 1, 5))
    assert not league.look(pairs), "the mixture stays while its answer is learned"
    league.hear(measured(1, 0, 3 * GAMES))  # it turns out to be worse
    assert league.look(pairs)
    assert max(league.given["main"], key=lambda each: each[2])[:2] == [0, 0]
    assert not league.look(pairs)
    league.journal.close()


def test_a_member_that_joins_too_soon_is_mixed_in_by_fewer_games(tmp_path: Path) -> None:
    """Where members join faster than they are measured, the next odds come nevertheless."""
    league = league_of(tmp_path, games=1_000)
    for number in range(3):
        league.freeze(0, number, steps=10 * number, version=number, reason="steps")
        league.look(league.standings.pairs())
    pairs = league.standings.pairs()
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert not league.look(pairs)
        league.hear(measured(first, second, 32))
    assert league.look(pairs)
    assert max(league.given["main"], key=lambda each: each[2])[:2] == [0, 2]
    assert not league.look(pairs)
    league.journal.close()
