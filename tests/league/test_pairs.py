"""Which members play next, where there are many: some pairs are ranked at once, and still each two play as often as they should."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from shoal.api.league import MATCH, Member
from shoal.league.payoffs import Payoffs
from shoal.league.standings import AT_ONCE, Pair, Pairs


def many(members: int, most: int) -> tuple[Pairs, Payoffs]:
    payoffs, held = Payoffs(), [(0, number) for number in range(members)]
    return Pairs(list(combinations(held, 2)), payoffs, most), payoffs


def play(payoffs: Payoffs, pairs: list[Pair], dice: np.random.Generator) -> None:
    made = np.zeros(len(pairs), MATCH)
    made["own"] = [first[1] for first, _ in pairs]
    made["member"] = [second[1] for _, second in pairs]
    made["earned"] = dice.choice([-1, 1], len(pairs))
    made["against"] = -made["earned"]
    payoffs.add(made)


def test_all_play_as_often_as_they_should() -> None:
    pairs, payoffs = many(12, most=5)
    dice, under_way = np.random.default_rng(0), list[Pair]()
    while (pair := pairs.choose(under_way)) is not None or under_way:
        if pair is not None:
            under_way.append(pair)
        if pair is None or len(under_way) == 16:
            play(payoffs, under_way, dice)
            under_way = []
    held: list[Member] = [(0, number) for number in range(12)]
    games = payoffs.of(held)[1]
    assert (games[~np.eye(12, dtype=bool)] == 5).all()
    assert not pairs.wanting


def test_of_many_pairs_each_has_its_turn() -> None:
    pairs, _ = many(64, most=40)
    ranked = 64 * 63 // 2 // AT_ONCE
    chosen = [pairs.choose([]) for _ in range(ranked)]
    assert len(set(chosen)) == ranked
    assert pairs.choose([]) == chosen[0], "nothing was played: the same are the best"
