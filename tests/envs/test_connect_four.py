"""`shoal/connect-four` beside PettingZoo's own game: equal at every step, whoever moves and however a game ends."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.api.env import Env, Step
from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError
from shoal.base.seeding import generator
from shoal.envs import make_env
from shoal.envs.native.connect_four import COLUMNS, GROUP, ROWS, ConnectFour
from shoal.testing.env import check_env

COPIES = 12


def both(copies: int = COPIES) -> tuple[Env, Env]:
    pytest.importorskip("pettingzoo.classic.connect_four_v3")
    return ConnectFour(copies), make_env(EnvConfig(id="classic/connect_four_v3"), copies)


def assert_equal(ours: Step, theirs: Step) -> None:
    """What waiting agents see is theirs to know: only those who act, or ended, are compared."""
    a, b = ours.turns[GROUP], theirs.turns[GROUP]
    for name in ("reward", "terminated", "truncated", "acting", "action_mask"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    np.testing.assert_array_equal(a.observation[a.acting], b.observation[a.acting])
    ended = a.terminated
    assert (a.final_observation is None) == (b.final_observation is None) == (not ended.any())
    if ended.any():
        np.testing.assert_array_equal(a.final_observation[ended], b.final_observation[ended])
    assert [(e.row, e.length, e.returns[GROUP].tolist()) for e in ours.episodes] == [
        (e.row, e.length, e.returns[GROUP].tolist()) for e in theirs.episodes
    ]


def test_it_is_pettingzoos_game() -> None:
    ours, theirs = both()
    assert ours.groups == theirs.groups
    mine, its = ours.reset(1), theirs.reset(1)
    random, results = generator(0, "moves"), []
    for time in range(400):
        assert_equal(mine, its)
        results += [episode.returns[GROUP][0] for episode in mine.episodes]
        allowed = mine.turns[GROUP].action_mask
        likes = random.random(allowed.shape)
        likes[..., time % 3 :] *= 0.9  # uneven play ends in more ways
        move = np.where(allowed, likes, -1.0).argmax(axis=2)
        wrong = random.random(COPIES) < 0.003  # now and then any column, a full one too
        move[wrong] = random.integers(COLUMNS, size=(int(wrong.sum()), 2))
        mine, its = ours.step({GROUP: move}), theirs.step({GROUP: move})
    assert {1.0, -1.0} <= set(results)


def test_a_full_board_is_a_draw() -> None:
    ours, theirs = both(1)
    order = [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 2, 3, 2, 3, 3, 2, 3, 2, 2, 3, 2, 3]
    order += [4, 5, 4, 5, 5, 4, 5, 4, 4, 5, 4, 5, 6, 6, 6, 6, 6, 6]
    assert len(order) == ROWS * COLUMNS
    ours.reset(0), theirs.reset(0)
    for column in order:
        move = {GROUP: np.full((1, 2), column)}
        mine, its = ours.step(move), theirs.step(move)
        assert_equal(mine, its)
    assert [(e.length, e.returns[GROUP].tolist()) for e in mine.episodes] == [(42, [0.0, 0.0])]


def test_a_move_into_a_full_column_loses() -> None:
    ours, theirs = both(1)
    ours.reset(0), theirs.reset(0)
    for _ in range(7):
        move = {GROUP: np.full((1, 2), 3)}
        mine, its = ours.step(move), theirs.step(move)
        assert_equal(mine, its)
    assert mine.episodes[0].returns[GROUP].tolist() == [-1.0, 0.0]


@pytest.mark.parametrize("cells", [[(0, 3), (0, 4), (0, 5), (0, 6)], [(2, 0), (3, 0), (4, 0), (5, 0)],
                                   [(0, 0), (1, 1), (2, 2), (3, 3)], [(5, 3), (4, 4), (3, 5), (2, 6)]])  # fmt: skip
def test_lines_win_in_every_direction_and_do_not_wrap(cells: list[tuple[int, int]]) -> None:
    from shoal.envs.native.connect_four import BITS, _four

    bits = [int(BITS[cell]) for cell in cells]
    whole = sum(1 << bit for bit in bits)
    assert _four(np.array([whole])).all()
    assert not _four(np.array([whole ^ (1 << bit) for bit in bits])).any()
    across = [int(BITS[cell]) for cell in [(0, 0), (5, 1), (4, 1), (3, 1)]]
    assert not _four(np.array([sum(1 << bit for bit in across)])).any()


def test_it_keeps_the_contract() -> None:
    checks = check_env(ConnectFour, steps=120)
    assert [check for check in checks if not check.passed] == []


def test_games_begin_behind_random_moves() -> None:
    env = ConnectFour(512, openings=6)
    stones, movers = env.reset(3).turns[GROUP].observation[:, 0].sum(axis=(1, 2)), env.acting()[GROUP]
    counts = stones.sum(axis=1)
    assert set(counts.tolist()) == set(range(7))
    np.testing.assert_array_equal(stones[:, 0] - stones[:, 1], counts % 2, "they took turns")
    np.testing.assert_array_equal(movers.argmax(axis=1), counts % 2, "and whoever is next moves next")
    boards = env.arrays["height"].copy()
    np.testing.assert_array_equal(boards.sum(axis=1), counts)
    assert len({tuple(board) for board in boards.tolist()}) > 200
    env.reset(4)
    assert (env.arrays["height"] != boards).any(), "other games, other openings"
    assert all(check.passed for check in check_env(lambda copies: ConnectFour(copies, openings=5), steps=60))


def test_openings_that_could_win_are_refused() -> None:
    with pytest.raises(InputError, match=r"env\.kwargs\.openings = 7: 0 to 6 moves"):
        make_env(EnvConfig(id="shoal/connect-four", kwargs={"openings": 7}), 2)
