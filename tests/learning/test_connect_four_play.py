"""The recipe `connect-four` to its bar: five seeds, each evaluated in PettingZoo's own game, which it was not trained in.

Greedy play wins 95 % of 200 games against a player who makes any legal move alike, as the first and as the second player, and
makes no illegal move. `make test-slow` prints the table of docs/results.md.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

if TYPE_CHECKING:
    from shoal.api.policy import Policy

SEEDS = (1, 2, 3, 4, 5)
GAMES, BAR, NEEDED = 200, 0.95, 4


class Tally(NamedTuple):
    """What came of some games of one side."""

    won: int
    drawn: int
    lost: int
    illegal: int
    """Moves into a full column: the game ends with them."""


class Result(NamedTuple):
    first: Tally
    second: Tally
    steps: int
    seconds: float

    @property
    def reached(self) -> bool:
        return all(side.won >= BAR * GAMES and side.illegal == 0 for side in (self.first, self.second))


def play(policy: Policy, side: int, games: int, seed: int) -> Tally:
    """Games of a greedy policy in the real game, which itself says what was illegal."""
    import torch
    from pettingzoo.classic import connect_four_v3

    from shoal.api.policy import Request

    env, random = connect_four_v3.env(), np.random.default_rng([seed, side])
    me, other = env.possible_agents[side], env.possible_agents[1 - side]
    ends = {"won": 0, "drawn": 0, "lost": 0, "illegal": 0}
    for game in range(games):
        env.reset(seed=game)
        while not any(env.terminations.values()):
            seen = env.observe(env.agent_selection)
            if env.agent_selection == me:
                board, allowed = (torch.from_numpy(seen[name][None]) for name in ("observation", "action_mask"))
                nothing = torch.zeros(1, policy.noise_size)
                request = Request(board, torch.zeros(1, dtype=torch.bool), nothing, None, allowed.bool())
                with torch.inference_mode():
                    move = int(policy.act(request, explore=False).action)
            else:
                move = int(random.choice(np.flatnonzero(seen["action_mask"])))
            env.step(move)
        mine, theirs = env.rewards[me], env.rewards[other]
        ends["illegal" if mine < 0 == theirs else "won" if mine > 0 else "lost" if mine < 0 else "drawn"] += 1
    return Tally(**ends)


def train_and_judge(seed: int, overrides: list[str]) -> Result:
    """`shoal train connect-four --seed N --on inline`, then both sides."""
    import shoal
    from shoal.api.experiment import load_experiment
    from shoal.api.policy_spec import Source
    from shoal.program.expand import expand
    from shoal.recipes import find
    from shoal.rollout.plans import load_source

    with tempfile.TemporaryDirectory() as root:
        experiment = load_experiment(find("connect-four"), [f"seed={seed}", *overrides])
        outcome = shoal.train(experiment, root=root, on="inline", quiet=True)
        learner = expand(experiment).policies["learner"]
        policy = load_source(Source(learner, str(outcome.folder / "checkpoints"), outcome.version)).eval()
    first, second = (play(policy, side, GAMES, 1000 + seed) for side in (0, 1))
    return Result(first, second, outcome.steps, outcome.seconds)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_five_seeds_beat_random_play_from_both_sides() -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(train_and_judge, SEEDS, [[]] * len(SEEDS)))
    for seed, (first, second, steps, seconds) in zip(SEEDS, results, strict=True):
        sides = " | ".join(f"{side.won / GAMES:.1%}, {side.drawn}, {side.lost}" for side in (first, second))
        print(f"\n| {seed} | {sides} | {first.illegal + second.illegal} | {steps:,} | {seconds:.0f} |", end="")
    assert sum(result.reached for result in results) >= NEEDED


class Always:
    """A policy with one move in mind."""

    noise_size = 1

    def __init__(self, column: int) -> None:
        self._column = column

    def act(self, request: object, *, explore: bool) -> object:
        import torch

        from shoal.api.policy import Decision

        return Decision(torch.tensor([self._column]), {}, None)


def test_the_judge_counts_wins_of_either_side_and_illegal_moves() -> None:
    """Who stacks one column wins often, and now and then drops a stone where none fits."""
    pytest.importorskip("pettingzoo.classic.connect_four_v3")
    for side in (0, 1):
        tally = play(Always(3), side, 60, 1)
        assert sum(tally) == 60
        assert tally.won > 25
        assert tally.illegal > 3
        assert tally.lost <= 10
