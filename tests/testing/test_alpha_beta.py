"""The player that looks four moves ahead: what it finds is what looking at everything finds, and it misses nothing near."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.api.experiment import EnvConfig
from shoal.envs import make_env
from shoal.testing import alpha_beta
from shoal.testing.alpha_beta import DEPTH, WON, best_moves, connect_four


def minimax(own: int, other: int, depth: int) -> int:
    """Without cutting anything off."""
    if not depth:
        return alpha_beta._open_lines(own, other)
    after = [(bit, alpha_beta._four(own | bit)) for _, bit in alpha_beta._moves(own | other)]
    return max((WON + depth if won else -minimax(other, own | bit, depth - 1) for bit, won in after), default=0)


def boards(seed: int) -> tuple[int, int]:
    dice, own, other = np.random.default_rng(seed), 0, 0
    for _ in range(int(dice.integers(2, 34))):
        moves = alpha_beta._moves(own | other)
        bit = moves[int(dice.integers(len(moves)))][1]
        if alpha_beta._four(own | bit):
            break
        own, other = other, own | bit
    return own, other


@pytest.mark.parametrize("seed", range(12))
def test_cutting_off_changes_nothing(seed: int) -> None:
    own, other = boards(seed)
    worth = {}
    for column, bit in alpha_beta._moves(own | other):
        won = alpha_beta._four(own | bit)
        worth[column] = WON + DEPTH if won else -minimax(other, own | bit, DEPTH - 1)
    best = max(worth.values())
    assert set(best_moves(own, other)) == {column for column, value in worth.items() if value == best}


def board(*lines: str) -> np.ndarray:
    """From above, `o` one's own."""
    rows = [" " * 7] * (6 - len(lines)) + list(lines)
    return np.array([[[[cell == "o", cell == "x"] for cell in row] for row in rows]], np.int8)


def chosen(seen: np.ndarray) -> set[int]:
    shares = np.linspace(0.0, 0.999, 20)
    return {int(connect_four(seen, np.ones((1, 7), bool), np.full((1, 8), share))[0]) for share in shares}


def test_it_wins_where_it_can_and_hinders_where_it_must() -> None:
    assert chosen(board("xxx  o ", "ooo  x ")) == {3}
    assert chosen(board("       ", "xxx o o")) == {3}
    assert chosen(board("  xx   ", "  oo   ")) == {1, 4}


def test_it_beats_who_moves_at_random() -> None:
    env = make_env(EnvConfig(id="shoal/connect-four"), 8)
    dice, step, won, games = np.random.default_rng(1), env.reset(1), 0, 0
    while games < 24:
        turn = step.turns["player"]
        assert turn.action_mask is not None
        random = (dice.random((8, 7)) * turn.action_mask[:, 1]).argmax(axis=1)
        ours = connect_four(turn.observation[:, 0], turn.action_mask[:, 0], dice.random((8, 8)))
        step = env.step({"player": np.stack([ours, random], axis=1)})
        won += sum(episode.returns["player"][0] > 0 for episode in step.episodes)
        games += len(step.episodes)
    assert won == games
