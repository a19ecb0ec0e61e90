"""Who meets whom: by the odds, by the copy, on both sides; and only those who can be played."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from shoal.api.env import Episode
from shoal.api.league import LIVE, Member
from shoal.rollout.matchmaking import Cast, Matchmaker, Odds, code_of, member_of, records_of

EQUAL = Cast(
    ("main", "hunter"), {"player": 2}, {"main": "rival", "hunter": "rival"},
    {"main": ("player", (0, 1)), "hunter": ("player", (0, 1))}, {}, True,
)  # fmt: skip
SIDED = Cast(
    ("hunters", "prey"), {"adversary": 3, "agent": 2}, {"hunters": "rival-hunters", "prey": "rival-prey"},
    {"hunters": ("adversary", (0, 1, 2)), "prey": ("agent", (0,))}, {"tree": ("agent", (1,))}, False,
)  # fmt: skip


def maker(cast: Cast, odds: Odds, missing: set[Member] | None = None, copies: int = 4) -> Matchmaker:
    return Matchmaker(cast, odds, lambda member: member not in (missing or set()), copies, seed=3, first_slot=8)


@pytest.mark.parametrize("member", [(0, LIVE), (0, 0), (5, 7), (255, 2**31 - 2)])
def test_codes_name_members(member: Member) -> None:
    assert member_of(code_of(member)) == member


def test_before_any_order_players_meet_themselves() -> None:
    match = maker(EQUAL, Odds())
    assert match(8, 0) == {"player": ["main", "main"]}
    assert match(9, 0) == {"player": ["hunter", "hunter"]}
    assert match.match(9)[:4] in ([1, 0, 1, LIVE], [1, 1, 1, LIVE])
    assert (match.codes("player", None) == -1).all()


def test_members_are_met_as_often_as_the_odds_say_and_on_both_sides() -> None:
    odds = Odds()
    match = maker(EQUAL, odds)
    odds.give({"main": [(0, 3, 0.75), (1, 0, 0.25)], "hunter": [(0, LIVE, 1.0)]})
    met, sides = Counter[Member](), Counter[int]()
    for episode in range(2000):
        dealt = match(10, episode)["player"]
        asker, side, player, number, _ = match.match(10)
        assert asker == 0
        assert dealt[side] == "main"
        assert dealt[1 - side] == "rival"
        codes = match.codes("player", None).reshape(4, 2)[2]
        assert codes[side] == -1
        assert codes[1 - side] == code_of((player, number))
        met[player, number] += 1
        sides[side] += 1
    assert met[0, 3] == pytest.approx(1500, abs=100)
    assert sides[0] == pytest.approx(1000, abs=110)
    match(9, 0)
    assert match.match(9)[2:4] == [0, LIVE]  # an exploiter meets the main player as it learns, and does not teach it
    assert sorted(match(9, 1)["player"]) == ["hunter", "rival"]


def test_equal_numbers_give_equal_draws() -> None:
    odds = Odds()
    odds.give({"main": [(0, number, 1.0) for number in range(9)]})
    first, second = maker(EQUAL, odds), maker(EQUAL, odds)
    drawn = [first(8, episode) and first.match(8) for episode in range(50)]
    assert [second(8, episode) and second.match(8) for episode in reversed(range(50))][::-1] == drawn
    assert len({each[3] for each in drawn}) > 5


def test_who_cannot_be_played_yet_is_not_drawn() -> None:
    odds, missing = Odds(), {(0, 1)}
    odds.give({"main": [(0, 0, 0.01), (0, 1, 0.99)]})
    match = maker(EQUAL, odds, missing)
    assert all((match(8, episode), match.match(8)[3])[1] == 0 for episode in range(100))
    missing.clear()
    assert any((match(8, episode), match.match(8)[3])[1] == 1 for episode in range(100))
    missing |= {(0, 0), (0, 1)}
    odds.give(dict(odds.given))
    assert match(8, 0) == {"player": ["main", "main"]}


def test_sides_keep_their_agents() -> None:
    odds = Odds()
    match = maker(SIDED, odds)
    odds.give({"hunters": [(1, 4, 1.0)], "prey": [(0, 2, 1.0)]})
    assert match(8, 0) == {"adversary": ["hunters"] * 3, "agent": ["rival-prey", "tree"]}
    assert match(9, 0) == {"adversary": ["rival-hunters"] * 3, "agent": ["prey", "tree"]}
    assert match.codes("agent", [0]).tolist()[:2] == [code_of((1, 4)), -1]
    assert match.codes("adversary", None).reshape(4, 3)[1].tolist() == [code_of((0, 2))] * 3
    assert {(1, 4), (0, 2)} <= match.in_use


def test_an_episode_becomes_a_record() -> None:
    episode = Episode(2, 7, {"player": np.array([-1.5, 1.5])}, match=[0, 1, 1, 4, 33], producer=3, round=5)
    (record,) = records_of([episode, Episode(0, 1, {})], EQUAL, copies=16)
    assert (record["asker"], record["opponent"], record["member"], record["own"]) == (0, 1, 4, LIVE)
    assert (record["slot"], record["episode"], record["round"], record["steps"]) == (3 * 16 + 2, 33, 5, 7)
    assert (record["earned"], record["against"]) == (1.5, -1.5)


def test_teams_earn_what_their_agents_do_on_average() -> None:
    returns = {"adversary": np.array([1.0, 2.0, 6.0]), "agent": np.array([-9.0, 5.0])}
    (record,) = records_of([Episode(0, 7, returns, match=[1, 0, 0, 4, 33])], SIDED, copies=16)
    assert (record["asker"], record["opponent"], record["earned"], record["against"]) == (1, 0, -9.0, 3.0)


# ---------------------------------------------------------------- more than two

THREE = Cast(("main",), {"player": 3}, {"main": "rival"}, {"main": ("player", (0, 1, 2))}, {}, True)
SIDES = Cast(
    ("a", "b", "c"), {"player": 3}, {"a": "rival-a", "b": "rival-b", "c": "rival-c"},
    {"a": ("player", (0,)), "b": ("player", (1,)), "c": ("player", (2,))}, {}, False,
)  # fmt: skip


def test_each_of_several_opponents_is_drawn_by_itself() -> None:
    odds = Odds()
    match = maker(THREE, odds)
    odds.give({"main": [[0, 3, 0.5], [0, LIVE, 0.5]]})
    met = Counter[tuple[int, ...]]()
    for episode in range(2000):
        dealt = match(10, episode)["player"]
        _, side, *drawn, _ = match.match(10)
        numbers = drawn[1::2]
        met[tuple(numbers)] += 1
        seated = [*numbers[:side], LIVE, *numbers[side:]]
        assert dealt == ["main" if number == LIVE else "rival" for number in seated]
        codes = match.codes("player", None).reshape(4, 3)[2]
        assert codes.tolist() == [-1 if number == LIVE else code_of((0, number)) for number in seated]
    assert all(met[pair] == pytest.approx(500, abs=80) for pair in ((3, 3), (3, LIVE), (LIVE, 3), (LIVE, LIVE)))


def test_a_match_of_three_sides_is_a_record_for_each_opponent() -> None:
    odds = Odds()
    match = maker(SIDES, odds)
    odds.give({"b": [[0, 1, 0.2], [0, 2, 0.3], [2, 7, 0.5]]})
    assert match(10, 0) == match(10, 5) == {"player": ["rival-a", "b", "rival-c"]}
    assert {(match(10, episode), match.match(10)[3])[1] for episode in range(50)} == {1, 2}
    assert match.match(10)[4:6] == [2, 7]
    episode = Episode(1, 4, {"player": np.array([1.0, 2.0, -3.0])}, match=[1, 0, 0, 2, 2, 7, 5])
    records = records_of([episode], SIDES, copies=16)
    assert records["opponent"].tolist() == [0, 2]
    assert records["member"].tolist() == [2, 7]
    assert records["earned"].tolist() == [2.0, 2.0]
    assert records["against"].tolist() == [1.0, -3.0]
