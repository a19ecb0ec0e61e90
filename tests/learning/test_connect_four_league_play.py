"""The recipe `connect-four-league` to its bars: against agents of the recipe `connect-four`, and against one that looks ahead."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from connect_four_league import BARS, RIVALS, measure, trained

GAMES, OPENINGS = 400, 4


@pytest.mark.slow
@pytest.mark.timeout(14_400)
def test_the_main_player_beats_agents_of_self_play_and_one_that_looks_ahead(tmp_path: Path) -> None:
    main = trained(tmp_path, "connect-four-league", 1, "inline", [])
    rivals = [trained(tmp_path, "connect-four", seed, "inline", []) for seed in RIVALS]
    for name, (wins, draws, losses) in measure(main, rivals, GAMES, OPENINGS).items():
        print(f"\n| {name} | {wins} | {draws} | {losses} |", end="")
        assert wins >= BARS[name] * (wins + draws + losses)


def test_a_league_meets_runs_and_one_that_looks_ahead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is measured above, made small: both sides, all games played; and a run that is there is used, or goes on."""
    small = ["env.num_envs=16", "algorithm.minibatch=64", "model.channels=[8]", "model.hidden=[16]"]
    main = trained(tmp_path, "connect-four-league", 1, "inline", [*small, "league.games=0", "stop.updates=2"])
    rivals = [trained(tmp_path, "connect-four", seed, "inline", [*small, "stop.updates=2"]) for seed in (1, 2)]
    won = measure(main, rivals, 8, OPENINGS)
    assert [sum(counts) for counts in won.values()] == [16, 8]
    assert won["four moves ahead"][2] >= 6
    capsys.readouterr()
    assert trained(tmp_path, "connect-four-league", 1, "inline", ["stop.updates=2"]) == main
    assert "stop.updates = 2 reached" in capsys.readouterr().err
    assert trained(tmp_path, "connect-four-league", 1, "inline", ["stop.updates=3"]) == main
    assert "stop.updates = 3 reached" in capsys.readouterr().err
