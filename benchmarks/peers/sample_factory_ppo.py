"""Sample Factory's side: its PPO on CartPole-v1 with the settings given as JSON, for some seconds; prints one JSON line."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from importlib.metadata import version
from typing import Any

import gymnasium
import torch
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner

WORLD = "CartPole-v1"
FEWEST = 3
"""Updates of a run, however long they take."""


def cartpole(name: str, cfg: Any = None, env_config: Any = None, render_mode: str | None = None) -> Any:
    return gymnasium.make(name, disable_env_checker=True, render_mode=render_mode)


class Watch(AlgoObserver):
    """Notes the clock after every update; ends the run so many seconds after the first."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.points: list[tuple[float, int]] = []

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        self.points.append((time.time(), int(runner.env_steps.get(0, 0))))
        if len(self.points) >= FEWEST and self.points[-1][0] - self.points[0][0] > self.seconds:
            runner.cfg.train_for_env_steps = 0


def arguments(settings: dict[str, Any], folder: str) -> list[str]:
    """Half of each worker's copies step while the others wait for decisions, as the library has it."""
    workers = settings["workers"]
    batch = settings["num_envs"] * settings["unroll"]
    options = {
        "algo": "APPO", "env": WORLD, "train_dir": folder, "device": "cpu", "seed": settings["seed"],
        "serial_mode": settings["serial"], "async_rl": not settings["serial"], "batched_sampling": False,
        "num_workers": workers, "num_envs_per_worker": settings["num_envs"] // workers, "worker_num_splits": 2,
        "rollout": settings["unroll"], "recurrence": 1, "use_rnn": False,
        "batch_size": settings["minibatch"], "num_batches_per_epoch": batch // settings["minibatch"],
        "num_epochs": settings["epochs"], "learning_rate": settings["lr"],
        "encoder_mlp_layers": [64, 64], "nonlinearity": "tanh", "actor_critic_share_weights": False,
        "normalize_input": False, "normalize_returns": False, "train_for_seconds": 3600, "train_for_env_steps": 10**9,
        "decorrelate_experience_max_seconds": 0, "save_every_sec": 3600, "set_workers_cpu_affinity": False,
    }  # fmt: skip
    flat: list[str] = []
    for name, value in options.items():
        flat += [f"--{name}", *map(str, value)] if isinstance(value, list) else [f"--{name}={value}"]
    return flat


def main() -> None:
    settings = json.loads(sys.argv[1])
    watch = Watch(settings["seconds"])
    logging.disable(logging.CRITICAL)
    register_env(WORLD, cartpole)
    with tempfile.TemporaryDirectory() as folder:
        argv = arguments(settings, folder)
        parser, _ = parse_sf_args(argv)
        _, runner = make_runner(parse_full_cfg(parser, argv))
        runner.register_observer(watch)
        runner.init()
        runner.run()
    versions = (
        f"sample-factory {version('sample-factory')}, gymnasium {gymnasium.__version__}, torch {torch.__version__}"
    )
    print(json.dumps({"points": watch.points, "version": versions}))


if __name__ == "__main__":
    main()
