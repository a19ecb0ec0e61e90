"""The recipe `connect-four-league` to its bars: against agents of the recipe `connect-four`, and against one that looks ahead."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal
from shoal.api.experiment import load_experiment
from shoal.recipes import find

GAMES, OPENINGS = 400, 4
AHEAD = "shoal.testing.alpha_beta:connect_four"
SEEDS = (1, 2, 3, 4, 5)


def train(root: Path, recipe: str, seed: int, *overrides: str) -> Path:
    wanted = load_experiment(find(recipe), [f"seed={seed}", *overrides])
    return shoal.train(wanted, root=root, trial=f"s{seed}", on="inline", quiet=True).folder


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_main_player_beats_agents_of_self_play_and_one_that_looks_ahead(tmp_path: Path) -> None:
    main = train(tmp_path, "connect-four-league", 1)
    rivals = [str(train(tmp_path, "connect-four", seed)) for seed in SEEDS]
    scores, _ = shoal.evaluate(str(main), episodes=GAMES, against=[*rivals, AHEAD], openings=OPENINGS)
    for name, tally in scores.tallies.items():
        print(f"\n| {name} | {tally.wins} | {tally.draws} | {tally.losses} |", end="")
    *others, ahead = scores.tallies.values()
    assert sum(tally.wins for tally in others) >= 0.65 * GAMES * len(rivals)
    assert ahead.wins >= 0.5 * GAMES


def test_a_member_of_a_league_meets_a_run_and_one_that_looks_ahead(tmp_path: Path) -> None:
    """What is measured above, made small: both sides, all games played."""
    small = ("env.num_envs=16", "algorithm.minibatch=64", "model.channels=[8]", "model.hidden=[16]", "stop.updates=2")
    main = train(tmp_path, "connect-four-league", 1, *small, "league.games=0")
    rival = train(tmp_path, "connect-four", 1, *small)
    scores, _ = shoal.evaluate(str(main), episodes=8, against=[str(rival), AHEAD], openings=OPENINGS)
    assert [tally.matches for tally in scores.tallies.values()] == [8, 8]
    assert list(scores.tallies.values())[1].losses >= 6
