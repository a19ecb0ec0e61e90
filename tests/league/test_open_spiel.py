"""Our small games and alpha-rank beside OpenSpiel's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.envs.games.poker import Kuhn, Leduc
from shoal.envs.games.rules import CHANCE, OVER, Rules
from shoal.envs.games.table import Table
from shoal.league import meta_solvers
from shoal.testing.exploitability import Strategy, nash_conv

pyspiel = pytest.importorskip("pyspiel", reason="open_spiel comes with the dev extra")


def random_strategy(table: Table, seed: int) -> Strategy:
    dice = np.random.default_rng(seed)
    shares = [dice.random(legal.shape) ** 3 * legal for legal in table.legal]
    return [share / share.sum(axis=1, keepdims=True) for share in shares]


def theirs(name: str, table: Table, rules: Rules, strategy: Strategy) -> tuple[Any, Any]:
    """Their game with the same strategy: both are walked side by side, card by card and move by move."""
    from open_spiel.python import policy

    game = pyspiel.load_game(name)
    found = policy.TabularPolicy(game)

    def walk(state: Any, own: Any, number: int) -> None:
        mover = rules.mover(own)
        if mover == OVER:
            assert state.returns() == pytest.approx(rules.payoff(own))
        elif mover == CHANCE:
            same = [state.child(action) for action, _ in sorted(state.chance_outcomes())]
            for child, (_, after), index in zip(same, rules.chances(own), table.chance[number][0], strict=True):
                walk(child, after, int(index))
        else:
            assert state.current_player() == mover
            row, share = found.policy_for_key(state.information_state_string(mover)), strategy[mover]
            for action, same_action in zip(rules.legal(own), state.legal_actions(), strict=True):
                row[same_action] = share[table.knows[number, mover]][action]
                walk(state.child(same_action), rules.follow(own, action), int(table.child[number, action]))

    walk(game.new_initial_state(), rules.start(), 0)
    return game, found


@pytest.mark.parametrize(("name", "rules"), [("kuhn_poker", Kuhn()), ("leduc_poker", Leduc())])
@pytest.mark.parametrize("seed", range(2))
def test_nash_conv_is_that_of_open_spiel(name: str, rules: Rules, seed: int) -> None:
    from open_spiel.python.algorithms import exploitability

    table = Table(rules)
    strategy = random_strategy(table, seed)
    game, policy = theirs(name, table, rules, strategy)
    assert nash_conv(table, strategy) == pytest.approx(exploitability.nash_conv(game, policy), abs=1e-9)


COMMITMENT = np.array(
    [[0.875, 0.75, 0, 2.75, 0.75], [1, 1, -1, -1, -1], [0, 2, 0, 0, 0], [-2, 2, 0, 0, 0], [1, 2, 0, 0, 0]]
)
"""The game of Han et al. 2013 that OpenSpiel tests its own with."""


def test_alpha_rank_is_that_of_open_spiel() -> None:
    from open_spiel.python.egt import alpharank

    share = alpharank.compute([COMMITMENT], m=20, alpha=0.1, use_local_selection_model=False)[2]
    assert meta_solvers.alpha_rank_symmetric(COMMITMENT, alpha=0.1, population=20) == pytest.approx(share, abs=1e-6)
    assert share == pytest.approx([0.4097, 0.0796, 0.2051, 0.0851, 0.2206], abs=1e-4)
