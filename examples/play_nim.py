"""A policy from self-play inside a loop of your own: no viewer, no framework, only `player.act`.

Nim: take one, two or three matches, and do not take the last one. The policy learns against itself; then play against it
in the terminal, or let random play do so.

    python examples/play_nim.py                 # you against the policy
    python examples/play_nim.py --games 500     # random play against the policy, perfect play beside it
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import AECEnv

import shoal

MOST = 16


def view(left: int) -> dict[str, np.ndarray]:
    """What a player sees: how many matches are left, and which moves there are."""
    seen = np.zeros(MOST + 1, np.float32)
    seen[left] = 1.0
    return {"observation": seen, "action_mask": np.array([take <= left for take in (1, 2, 3)], np.int8)}


class Nim(AECEnv):
    """Two players in turn; who takes the last match loses."""

    metadata = {"name": "nim"}
    possible_agents = ["player_0", "player_1"]

    def observation_space(self, agent: str) -> Dict:
        return Dict({"observation": Box(0.0, 1.0, (MOST + 1,), np.float32), "action_mask": Box(0, 1, (3,), np.int8)})

    def action_space(self, agent: str) -> Discrete:
        return Discrete(3)

    def observe(self, agent: str) -> dict[str, np.ndarray]:
        return view(self.left)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self.agents, self.agent_selection = list(self.possible_agents), "player_0"
        self.left = int(np.random.default_rng(seed).integers(5, MOST + 1))
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0.0) for _ in range(2))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}

    def step(self, action: int | None) -> None:
        player = self.agent_selection
        if self.terminations[player]:
            return self._was_dead_step(action)
        other = self.possible_agents[1 - self.possible_agents.index(player)]
        self._cumulative_rewards[player] = 0.0
        assert action is not None
        self.left -= int(action) + 1
        if self.left == 0:
            self.rewards = {player: -1.0, other: 1.0}
            self.terminations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()
        self.agent_selection = other
        return None


def trained(steps: int, root: str) -> shoal.Player:
    """Somebody who has learned it: one policy that plays both sides."""
    experiment = shoal.Experiment.parse(
        {
            "env": {"id": Nim, "num_envs": 32},
            "algorithm": {"name": "ppo", "lr": 3e-3, "unroll": 16, "minibatch": 256, "gamma": 1.0, "entropy": 0.01},
            "model": {"name": "mlp", "hidden": [64]},
            "stop": {"steps": steps},
            "name": "nim",
        }
    )
    return shoal.load(shoal.train(experiment, root=root, quiet=True).folder).policy().player()


def game(players: list[Any], left: int) -> int:
    """Who wins: players are functions of the matches left that say how many to take."""
    turn = 0
    while True:
        left -= players[turn](left)
        turn = 1 - turn
        if left == 0:
            return turn


def ask(left: int) -> int:
    """The person at the terminal."""
    while True:
        word = input(f"{'|' * left}  {left} left. Take 1, 2 or 3: ")
        if word in ("1", "2", "3") and int(word) <= left:
            return int(word)


def main() -> None:
    parser = argparse.ArgumentParser(description="Play Nim against a policy from self-play.")
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--games", type=int, default=0, help="let random play do it, so many times")
    parser.add_argument("--root", default="runs")
    options = parser.parse_args()
    player, rng = trained(options.steps, options.root), np.random.default_rng(0)

    def policy(left: int) -> int:
        player.reset()
        return int(player.act(view(left))) + 1

    if options.games:
        random = [lambda left: int(rng.integers(1, min(3, left) + 1)), policy]
        won = sum(game(random, int(rng.integers(5, MOST + 1))) for _ in range(options.games))
        right = [left for left in range(2, MOST + 1) if left % 4 != 1 and (left - policy(left)) % 4 == 1]
        print(
            f"won {won} of {options.games} against random play, which begins; the perfect move in {len(right)} of 12 positions"
        )
        return
    winner = game([ask, policy], 15)
    print("you win" if winner == 0 else "the policy wins")


if __name__ == "__main__":
    main()
