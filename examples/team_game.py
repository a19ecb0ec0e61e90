"""A team game of your own, learned by two algorithms.

Two lifters stand on a ring of places. A crate appears somewhere; it is lifted when both stand on its place at once, and
then another appears. Both earn the same. MAPPO and QMIX learn it, and are evaluated on the same episodes.

    python examples/team_game.py --steps 60000
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

import shoal

LIFTERS = ("lifter_0", "lifter_1")
MOVES = (-1, 0, 1)


class Crates(ParallelEnv):
    """`places` on a ring, `patience` steps an episode. An agent sees itself, its partner and the crate."""

    metadata = {"name": "crates"}
    possible_agents = list(LIFTERS)

    def __init__(self, places: int = 6, patience: int = 25) -> None:
        self.places, self.patience = places, patience

    def observation_space(self, agent: str) -> Box:
        return Box(0.0, 1.0, (3 * self.places,), np.float32)

    def action_space(self, agent: str) -> Discrete:
        return Discrete(len(MOVES))

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self.rng = np.random.default_rng(seed)
        self.at = self.rng.integers(0, self.places, 2)
        self.crate, self.time, self.lifted = int(self.rng.integers(self.places)), 0, 0
        self.agents = list(LIFTERS)
        return self._see(), {agent: {} for agent in LIFTERS}

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        self.at = (self.at + [MOVES[int(actions[agent])] for agent in LIFTERS]) % self.places
        together = bool((self.at == self.crate).all())
        if together:
            self.lifted += 1
            self.crate = int(self.rng.integers(self.places))
        self.time += 1
        late = self.time == self.patience
        infos = {agent: {"metrics": {"lifted": float(self.lifted)}} for agent in LIFTERS}
        outcome = [dict.fromkeys(LIFTERS, value) for value in (float(together), False, late)]
        self.agents = [] if late else self.agents
        return self._see(), *outcome, infos

    def _see(self) -> dict[str, np.ndarray]:
        places = np.eye(self.places, dtype=np.float32)
        return {
            agent: np.concatenate([places[self.at[i]], places[self.at[1 - i]], places[self.crate]])
            for i, agent in enumerate(LIFTERS)
        }


ALGORITHMS: dict[str, dict[str, Any]] = {
    "mappo": {"name": "ppo", "critic": "central", "lr": 3e-3, "unroll": 25, "minibatch": 400, "entropy": 0.01},
    "qmix": {
        "name": "qmix", "reward": "mean", "lr": 2e-3, "unroll": 25, "batch": 500, "updates": 4, "warmup": 1_000,
        "epsilon": {"start": 1.0, "end": 0.05, "steps": 10_000},
    },
}  # fmt: skip


def learn(algorithm: str, steps: int, root: str) -> tuple[float, float]:
    """Train it; what the team earns in an episode afterwards, and in how many seconds it was trained."""
    experiment = shoal.Experiment.parse(
        {
            "env": {"id": Crates, "num_envs": 16, "game_return": "mean"},
            "algorithm": ALGORITHMS[algorithm],
            "model": {"name": "mlp", "hidden": [64], "activation": "relu"},
            "stop": {"steps": steps},
            "name": f"crates-{algorithm}",
        }
    )
    outcome = shoal.train(experiment, root=root, quiet=True)
    scores, _ = shoal.evaluate(str(outcome.folder), episodes=50, seed=7)
    assert scores.game is not None
    return scores.game, outcome.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="A team game of your own, by two algorithms.")
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--root", default="runs")
    options = parser.parse_args()
    print(f"{'algorithm':<10} {'crates':>7} {'seconds':>8}")
    for algorithm in ALGORITHMS:
        crates, seconds = learn(algorithm, options.steps, options.root)
        print(f"{algorithm:<10} {crates:>7.1f} {seconds:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
