"""Meta-solvers, on games whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.api.env import Array
from shoal.base.errors import InputError
from shoal.envs.games.matrix import Blotto, RockPaperScissors
from shoal.envs.games.poker import Kuhn, Leduc
from shoal.envs.games.table import Table
from shoal.league import meta_solvers
from shoal.league.meta_solvers import MetaSolver
from shoal.testing.exploitability import best_response, exploitability, mixture, uniform, values

PLAIN, BIASED = RockPaperScissors().pays, RockPaperScissors(biased=True).pays
EQUILIBRIUM = np.array([1, 10, 5]) / 16


def zero_sum(matrix: Array) -> list[Array]:
    return [matrix, -matrix]


@pytest.mark.parametrize(
    ("solver", "near"),
    [
        (meta_solvers.nash, 1e-9),
        (meta_solvers.fictitious_play, 0.03),
        (meta_solvers.regret_matching, 0.001),
        (meta_solvers.replicator, 0.03),
    ],
)
def test_the_equilibrium_of_biased_rock_paper_scissors(solver: MetaSolver, near: float) -> None:
    for share in solver(zero_sum(BIASED)):
        assert share.sum() == pytest.approx(1.0)
        assert np.abs(share - EQUILIBRIUM).max() < near


@pytest.mark.parametrize("solver", [meta_solvers.nash, meta_solvers.regret_matching, meta_solvers.alpha_rank])
def test_the_equilibrium_of_rock_paper_scissors(solver: MetaSolver) -> None:
    for share in solver(zero_sum(PLAIN)):
        assert share == pytest.approx(np.full(3, 1 / 3), abs=1e-3)


def test_blotto_has_66_choices_and_is_fair() -> None:
    blotto = Blotto()
    assert blotto.actions == 66
    share = meta_solvers.nash(zero_sum(blotto.pays))[0]
    assert (share @ blotto.pays).min() == pytest.approx(0.0, abs=1e-9)
    table = Table(blotto)
    assert exploitability(table, uniform(table)) == pytest.approx(0.3182, abs=1e-4)


def test_nash_averaging_is_not_fooled_by_copies() -> None:
    stronger = np.array([[0.0, -1.0, -1.0], [1.0, 0.0, -1.0], [1.0, 1.0, 0.0]])
    assert meta_solvers.nash_averaging(stronger)[0] == pytest.approx([0, 0, 1], abs=1e-4)
    twice = [0, 1, 2, 2]
    share, earned = meta_solvers.nash_averaging(PLAIN[np.ix_(twice, twice)])
    assert share == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6], abs=1e-4)
    assert earned == pytest.approx(np.zeros(4), abs=1e-4)


def test_alpha_rank_prefers_who_beats_all() -> None:
    better = np.array([[0.0, 0.2, 0.1], [-0.2, 0.0, 0.3], [-0.1, -0.3, 0.0]])
    assert meta_solvers.alpha_rank_symmetric(better) == pytest.approx([1, 0, 0], abs=1e-3)
    assert meta_solvers.alpha_rank_symmetric(PLAIN) == pytest.approx(np.full(3, 1 / 3))
    assert meta_solvers.alpha_rank(zero_sum(better))[0] == pytest.approx([1, 0, 0], abs=1e-3)


def test_alpha_rank_of_a_game_that_both_like_to_agree_in() -> None:
    """Both earn 1 if they agree: each way to agree is found half of the time, by three players as by two."""
    both = np.eye(2)
    assert meta_solvers.alpha_rank([both, both])[0] == pytest.approx([0.5, 0.5], abs=1e-6)
    all_three = np.zeros((2, 2, 2))
    all_three[0, 0, 0] = all_three[1, 1, 1] = 1.0
    for share in meta_solvers.alpha_rank([all_three] * 3):
        assert share == pytest.approx([0.5, 0.5], abs=1e-6)


def test_nash_is_refused_where_it_is_not_what_it_says() -> None:
    with pytest.raises(InputError, match="choose replicator or alpha_rank"):
        meta_solvers.nash([np.eye(2), np.eye(2)])


# -------------------------------------------------------------------- PSRO with exact best responses


def psro(table: Table, solver: MetaSolver, rounds: int) -> list[float]:
    """The exploitability of the mixture, round by round. Members are added that answer best to the mixture before."""
    members = [[own] for own in uniform(table)]
    payoff = np.zeros((0, 0))
    found = []
    for _ in range(rounds + 1):
        size, before = len(members[0]), len(payoff)
        payoff = np.pad(payoff, (0, size - before))
        for row, column in np.ndindex(size, size):
            if max(row, column) >= before:
                payoff[row, column] = values(table, [members[0][row], members[1][column]])[0]
        shares = solver(zero_sum(payoff))
        mixed = [mixture(table, members[player], shares[player], player) for player in range(2)]
        found.append(exploitability(table, mixed))
        for player in range(2):
            members[player].append(best_response(table, mixed, player)[1])
    return found


def latest_only(payoffs: list[Array]) -> list[Array]:
    return [np.eye(count)[-1] for count in payoffs[0].shape]


def test_psro_solves_kuhn_poker() -> None:
    found = psro(Table(Kuhn()), meta_solvers.nash, 12)
    assert found[:3] == pytest.approx([11 / 24, 5 / 12, 1 / 6])
    assert found[12] == pytest.approx(0.0, abs=1e-9)


def test_uniform_mixtures_come_near_on_kuhn_poker() -> None:
    found = psro(Table(Kuhn()), meta_solvers.uniform, 50)
    assert found[10] < 0.1
    assert found[50] < 0.04


def test_latest_only_self_play_does_not_converge() -> None:
    assert min(psro(Table(Kuhn()), latest_only, 30)) >= 1 / 6 - 1e-9


def test_psro_on_leduc_poker() -> None:
    found = psro(Table(Leduc()), meta_solvers.nash, 40)
    assert found[0] == pytest.approx(4.747222 / 2, abs=1e-6)
    assert found[20] < 1.2
    assert found[40] < 0.65
