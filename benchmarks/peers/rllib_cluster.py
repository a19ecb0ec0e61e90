"""RLlib's side: PPO on the sleeping environment, in a cluster that runs, with the settings given as JSON; prints one JSON line.

Runs inside a host of the cluster. The env runners use this very interpreter: the cluster itself was started by another.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

sys.path.insert(0, str(Path(__file__).parent.parent))
from sleeper import Sleeper

HERE = str(Path(__file__).parent.parent)
SETTINGS = json.loads(sys.argv[1])
RUNNERS = SETTINGS["actors"]

environment = {"py_executable": sys.executable, "env_vars": {"PYTHONPATH": HERE, "PYTHONWARNINGS": "ignore"}}
ray.init(address="auto", runtime_env=environment, log_to_driver=False, logging_level="ERROR")
register_env("sleeper", lambda _: Sleeper(SETTINGS["sleep"]))
config = (
    PPOConfig()
    .environment("sleeper")
    .env_runners(
        num_env_runners=RUNNERS,
        num_envs_per_env_runner=SETTINGS["copies"],
        rollout_fragment_length=SETTINGS["unroll"],
        num_cpus_per_env_runner=SETTINGS["cpus"],
    )
    .learners(num_learners=0)
    .training(
        train_batch_size_per_learner=RUNNERS * SETTINGS["copies"] * SETTINGS["unroll"],
        minibatch_size=RUNNERS * SETTINGS["copies"] * SETTINGS["unroll"],
        num_epochs=1,
    )
    .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False))
    .debugging(log_level="ERROR")
)
algorithm = config.build_algo()
points: list[tuple[float, int]] = []
for _ in range(SETTINGS["updates"]):
    sampled = algorithm.train()["env_runners"]["num_env_steps_sampled_lifetime"]
    points.append((time.perf_counter(), int(sampled)))
algorithm.stop()
print(json.dumps({"points": points, "version": f"ray {ray.__version__}"}))
