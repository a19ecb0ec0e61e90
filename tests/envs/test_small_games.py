"""Games of a table: they conform, have the sizes and values that are known of them, and play by their rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.api.experiment import EnvConfig
from shoal.envs import make_env
from shoal.envs.games.goofspiel import Goofspiel
from shoal.envs.games.matrix import RockPaperScissors
from shoal.envs.games.poker import Kuhn, KuhnPoker, Leduc, LeducPoker
from shoal.envs.games.rules import OVER, Rules
from shoal.envs.games.table import Table
from shoal.envs.games.tic_tac_toe import TicTacToe
from shoal.testing.env import check_env
from shoal.testing.exploitability import Strategy, exploitability, nash_conv, uniform, values

GAMES: list[tuple[str, dict[str, Any]]] = [
    ("shoal/kuhn", {}),
    ("shoal/leduc", {}),
    ("shoal/rps", {}),
    ("shoal/rps", {"biased": True}),
    ("shoal/blotto", {"coins": 5, "fields": 3}),
    ("shoal/tic-tac-toe", {}),
    ("shoal/goofspiel", {"cards": 4}),
]


@pytest.mark.parametrize(("env_id", "kwargs"), GAMES, ids=str)
def test_small_games_conform(env_id: str, kwargs: dict[str, Any]) -> None:
    checks = check_env(lambda copies: make_env(EnvConfig(id=env_id, kwargs=kwargs), copies), steps=60)
    assert [check for check in checks if not check.passed] == []


@pytest.mark.parametrize(
    ("rules", "states", "known"),
    [
        (Kuhn(), 58, None),
        (Leduc(), 9457, None),
        (TicTacToe(), 5478, 5478),
        (RockPaperScissors(), 13, 4),
    ],
)
def test_games_are_as_large_as_is_known(rules: Rules, states: int, known: int | None) -> None:
    table = Table(rules)
    assert len(table.mover) == states
    assert known is None or len(table.seen[0]) == known


def decides(table: Table, player: int) -> int:
    """At how much knowledge a player moves."""
    return len(np.unique(table.knows[table.mover == player, player]))


def test_poker_has_as_many_information_sets_as_is_known() -> None:
    assert sum(decides(Table(Kuhn()), player) for player in range(2)) == 12
    # 936 where cards of equal rank are told apart, which nothing in the game does
    assert sum(decides(Table(Leduc()), player) for player in range(2)) == 288


def test_uniform_play_is_as_exploitable_as_is_known() -> None:
    kuhn, leduc = Table(Kuhn()), Table(Leduc())
    assert nash_conv(kuhn, uniform(kuhn)) == pytest.approx(11 / 12)
    assert nash_conv(leduc, uniform(leduc)) == pytest.approx(4.747222, abs=1e-6)


def kuhn_equilibrium(table: Table, alpha: float) -> Strategy:
    """Kuhn's own, for `alpha` between 0 and 1/3: how often the first bets its lowest card."""
    jack, queen, king = (table.seen[0][:, 2 + card] == 1 for card in range(3))
    strategy = [np.tile([1.0, 0.0], (len(seen), 1)) for seen in table.seen]

    def bets(player: int, card: int, moves: str, share: float) -> None:
        seen = np.zeros(11)
        seen[player] = seen[2 + card] = 1
        for turn, move in enumerate(moves):
            seen[5 + 2 * turn + int(move)] = 1
        (row,) = np.flatnonzero((table.seen[player] == seen).all(axis=1) & decided(table, player))
        strategy[player][row] = [1 - share, share]

    assert jack.any()
    assert queen.any()
    assert king.any()
    for card, share in enumerate([alpha, 0.0, 3 * alpha]):
        bets(0, card, "", share)
    for card, share in enumerate([0.0, alpha + 1 / 3, 1.0]):
        bets(0, card, "01", share)
    for card, share in enumerate([1 / 3, 0.0, 1.0]):
        bets(1, card, "0", share)
    for card, share in enumerate([0.0, 1 / 3, 1.0]):
        bets(1, card, "1", share)
    return strategy


def decided(table: Table, player: int) -> np.ndarray:
    """Where a player moves, among all that it may know."""
    found = np.zeros(len(table.seen[player]), bool)
    found[table.knows[table.mover == player, player]] = True
    return found


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1 / 3])
def test_kuhns_own_equilibrium_cannot_be_exploited(alpha: float) -> None:
    table = Table(Kuhn())
    strategy = kuhn_equilibrium(table, alpha)
    assert values(table, strategy) == pytest.approx([-1 / 18, 1 / 18])
    assert exploitability(table, strategy) == pytest.approx(0.0, abs=1e-12)


def test_who_always_folds_loses_the_ante() -> None:
    table = Table(Leduc())
    folds = [np.where(legal[:, :1], [1.0, 0, 0], [0.0, 1, 0]) for legal in table.legal]
    assert nash_conv(table, folds) == pytest.approx(2.0)


def test_tic_tac_toe_is_a_draw() -> None:
    table = Table(TicTacToe())
    worth = table.payoff[:, 0].copy()
    for state in reversed(range(len(worth))):  # whatever follows on a state comes after it
        if table.mover[state] != OVER:
            after = worth[table.child[state][table.child[state] >= 0]]
            worth[state] = after.min() if table.mover[state] else after.max()
    assert worth[0] == 0.0
    assert set(worth) == {-1.0, 0.0, 1.0}


def test_goofspiel_is_fair() -> None:
    table = Table(Goofspiel(4))
    assert values(table, uniform(table)) == pytest.approx([0.0, 0.0])


def test_copies_earn_what_the_table_says() -> None:
    """Random play of many copies against the exact value."""
    env, dice = LeducPoker(512), np.random.default_rng(3)
    step, returns = env.reset(5), []
    while len(returns) < 20_000:
        masks = step.turns["player"].action_mask
        assert masks is not None
        actions = (dice.random(masks.shape) * masks).argmax(axis=2)
        step = env.step({"player": actions})
        returns += [episode.returns["player"][0] for episode in step.episodes]
    table = env.table
    value = values(table, uniform(table))[0]
    assert np.mean(returns) == pytest.approx(value, abs=4 * np.std(returns) / np.sqrt(len(returns)))


def test_nobody_sees_the_cards_of_the_other() -> None:
    """What a player is shown follows from what it knows, and tells apart all that it knows where it moves."""
    table = Table(Leduc())
    for player in range(2):
        shown = table.seen[player][decided(table, player)]
        assert len(np.unique(shown, axis=0)) == len(shown)


def test_a_move_that_is_not_allowed_is_an_error() -> None:
    env = LeducPoker(2)
    env.reset(0)
    with pytest.raises(ValueError, match="mask"):
        env.step({"player": np.zeros((2, 2), np.int64)})  # nobody has raised: there is nothing to fold to


def test_an_episode_ends_with_its_payoff() -> None:
    env = KuhnPoker(1)
    env.reset(0)
    env.step({"player": np.ones((1, 2), np.int64)})
    step = env.step({"player": np.ones((1, 2), np.int64)})
    assert step.turns["player"].terminated.all()
    assert sorted(step.turns["player"].reward[0]) == [-2.0, 2.0]
    assert (env.table.mover == OVER).any()
