"""BenchMARL's side: IPPO with shared networks on mpe2's spread with the settings given as JSON; prints one JSON line."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import benchmarl
import torch
from benchmarl.algorithms import IppoConfig
from benchmarl.environments.pettingzoo.common import PettingZooClass
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from mpe2 import simple_spread_v3
from torchrl.envs import PettingZooWrapper

AGENTS = 3
SETTINGS = json.loads(sys.argv[1])


class Spread(PettingZooClass):
    """The very object that the others step; BenchMARL's own task asks PettingZoo for it, which no longer has it."""

    def get_env_fun(self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any) -> Callable[[], Any]:
        return lambda: PettingZooWrapper(
            simple_spread_v3.parallel_env(max_cycles=25), seed=seed, device=device, categorical_actions=True
        )

    def has_state(self) -> bool:
        return False


class WindowError(Exception):
    """The window is full."""


class Watch(Callback):
    """Notes the clock after every update."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[float, int]] = []

    def on_train_end(self, training_td: Any, group: str) -> None:
        self.points.append((time.perf_counter(), AGENTS * int(self.experiment.total_frames)))
        if len(self.points) >= 3 and self.points[-1][0] - self.points[0][0] >= SETTINGS["seconds"]:
            raise WindowError


def settings_of(folder: str) -> ExperimentConfig:
    config = ExperimentConfig.get_from_yaml()
    config.max_n_iters, config.max_n_frames = None, 10**9
    config.on_policy_n_envs_per_worker = SETTINGS["num_envs"]
    config.on_policy_collected_frames_per_batch = SETTINGS["num_envs"] * SETTINGS["unroll"]
    config.on_policy_minibatch_size = SETTINGS["minibatch"] // AGENTS  # a frame holds all agents
    config.on_policy_n_minibatch_iters = SETTINGS["epochs"]
    config.lr, config.share_policy_params = SETTINGS["lr"], True
    config.evaluation, config.render, config.loggers, config.create_json = False, False, [], False
    config.save_folder = Path(folder)
    return config


def main() -> None:
    watch = Watch()
    model = MlpConfig(num_cells=[64, 64], activation_class=torch.nn.Tanh, layer_class=torch.nn.Linear)
    with tempfile.TemporaryDirectory() as folder:
        experiment = Experiment(
            task=Spread("SIMPLE_SPREAD", {"max_cycles": 25}),
            algorithm_config=IppoConfig.get_from_yaml(),
            model_config=model,
            critic_model_config=model,
            seed=SETTINGS["seed"],
            config=settings_of(folder),
            callbacks=[watch],
        )
        with suppress(WindowError):
            experiment.run()
    print(json.dumps({"points": watch.points, "version": f"benchmarl {benchmarl.__version__}"}))


if __name__ == "__main__":
    main()
