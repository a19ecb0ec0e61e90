"""Shoal's side: DQN on CartPole-v1 or Pong with the settings given as JSON, for some seconds; prints one JSON line.

`shape`: `inline` is one process; `local` an actor and a trainer with a share of each batch on every core, in step; `beside` an
actor on one core and a trainer on the other, which keeps experience of one version before; `auto` is what a probe
chooses. `threads`: of the trainer, and of Pong's emulators. `single`: sequences of one step each, as the peers keep them, instead
of `unroll` steps that are drawn together.
"""

from __future__ import annotations

import json
import sys
import tempfile
from itertools import accumulate
from pathlib import Path
from typing import Any

import gymnasium
import torch
from shoal_ppo import points_of

from shoal.api.experiment import Experiment
from shoal.runs.train import train

WORLDS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "env": {"id": "CartPole-v1", "vector": "loop"},
        "model": {"name": "mlp", "hidden": [64, 64], "activation": "relu"},
    },
    "pong": {
        "env": {"id": "ALE/Pong-v5", "clip_reward": 1, "kwargs": {"repeat_action_probability": 0.0}},
        "model": {"name": "nature"},
    },
}


def placement_of(settings: dict[str, Any]) -> dict[str, Any]:
    """Who is where."""
    cores = settings["cores"]
    shapes: dict[str, dict[str, Any]] = {
        "inline": {"trainers": 1},
        "local": {"trainers": cores, "actors": cores, "together": True, "agree": "allreduce", "max_lag": 0},
        "beside": {"trainers": 1, "actors": 1, "together": False, "max_lag": 1},
        "auto": {},
    }
    threads = {"threads": settings["threads"]} if "threads" in settings else {}
    return {**shapes[settings["shape"]], **threads}


def round_of(settings: dict[str, Any]) -> tuple[int, int]:
    """Steps of every copy, and the updates that follow them."""
    unroll, updates = settings["unroll"], settings["updates"]
    return (1, updates // unroll) if settings.get("single") else (unroll, updates)


def experiment_of(settings: dict[str, Any]) -> Experiment:
    """The work that all sides do."""
    taken = {name: settings[name] for name in ("batch", "target_every", "capacity", "warmup", "lr")}
    world, (unroll, updates) = WORLDS[settings["world"]], round_of(settings)
    emulators = {"num_threads": settings.get("threads", 1)} if settings["world"] == "pong" else {}
    kwargs = {**world["env"].get("kwargs", {}), **emulators}
    return Experiment.parse(
        {
            "env": {**world["env"], "kwargs": kwargs, "num_envs": settings["num_envs"]},
            "algorithm": {"name": "dqn", "double": False, "unroll": unroll, "updates": updates, **taken},
            "model": world["model"],
            "placement": placement_of(settings),
            "stop": {"seconds": settings["seconds"]},
            "seed": settings["seed"],
        }
    )


def learned_in(folder: Path) -> list[int]:
    """Rounds so far that were learned from, by row; a round is a row, and those of the warm-up are not."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return list(accumulate(int(row["train/updates_per_row"] > 0) for row in rows))


def trained(experiment: Experiment, settings: dict[str, Any]) -> dict[str, Any]:
    """What is told of a run: when it had made how many steps and updates."""
    with tempfile.TemporaryDirectory() as root:
        outcome = train(experiment, root=root, quiet=True, on="inline" if settings["shape"] == "inline" else "local")
        folder = Path(outcome.folder)
        points, learned = points_of(folder), learned_in(folder)
    updates = [(moment, round_of(settings)[1] * rounds) for (moment, _), rounds in zip(points, learned, strict=True)]
    version = f"gymnasium {gymnasium.__version__}, torch {torch.__version__}"
    return {"points": points, "updates": updates, "version": version}


def main() -> None:
    settings = json.loads(sys.argv[1])
    print(json.dumps(trained(experiment_of(settings), settings)))


if __name__ == "__main__":
    main()
