"""Runs through scripted Unity players: settings with which PPO, SAC and self-play reach the optimum, and how it is recognised.

The answer is known: whoever is shown one of three numbers names it, or points at its place between -1 and 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import shoal

SMALL = {"name": "mlp", "hidden": [32]}
PPO = {"name": "ppo", "lr": 0.01, "unroll": 20, "minibatch": 80, "epochs": 4}
SAC = {"name": "sac", "lr": 0.005, "unroll": 2, "updates": 2, "batch": 64, "warmup": 200, "gamma": 0.2, "temperature": 0.05,
       "learn_temperature": False}  # fmt: skip


def ppo(build: Path, actors: int) -> dict[str, Any]:
    """Eight agents of one behaviour in each actor's build."""
    return {
        "env": {"id": f"unity:{build}", "num_envs": 8 * actors, "kwargs": {"args": ["--agents", "8"]}},
        "algorithm": PPO, "model": SMALL, "placement": {"actors": actors}, "stop": {"steps": 8_000 * actors},
    }  # fmt: skip


def sac(build: Path, actors: int) -> dict[str, Any]:
    """Likewise, with a number for an action."""
    args = ["--agents", "8", "--actions", "continuous"]
    return {
        "env": {"id": f"unity:{build}", "num_envs": 8 * actors, "kwargs": {"args": args}},
        "algorithm": SAC, "model": SMALL, "placement": {"actors": actors}, "stop": {"steps": 16_000 * actors},
    }  # fmt: skip


def self_play(build: Path, actors: int) -> dict[str, Any]:
    """Two teams in two areas of each actor's build. Who earns, takes it from the rival: an earlier version of the learner."""
    args = ["--behaviours", "Duel?team=0", "Duel?team=1", "--duel"]
    return {
        "env": {"id": f"unity:{build}", "num_envs": 4 * actors, "kwargs": {"args": args, "num_areas": 4}},
        "agents": {"Duel_team0_*": "learner", "Duel_team1_*": "rival"}, "deal": "shuffled",
        "policies": {"learner": {}, "rival": {"past": {"of": "learner", "every": 5}}},
        "algorithm": PPO, "model": SMALL, "placement": {"actors": actors}, "stop": {"steps": 8_000 * actors},
    }  # fmt: skip


RUNS = {"ppo": (ppo, None), "sac": (sac, None), "self-play": (self_play, "learner")}
"""Name -> who makes its settings, and whose policy has learned; None: there is one."""


def mistakes(run: Path, policy: str | None) -> list[float]:
    """How far the greedy policy is off, for each of the numbers that may be shown: 0 each is the optimum."""
    player = shoal.load(run).policy(*([policy] if policy else [])).player()
    off = []
    for cue, shown in enumerate(np.eye(3, dtype=np.float32)):
        player.reset()
        action = np.asarray(player.act(shown))
        off.append(abs(float(action.reshape(-1)[0]) - (cue - 1 if action.dtype.kind == "f" else cue)))
    return off
