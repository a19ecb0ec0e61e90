"""RLlib's side: shared PPO on mpe2's spread with the settings given as JSON; prints one JSON line."""

from __future__ import annotations

import json
import logging
import sys
import time

import ray
from mpe2 import simple_spread_v3
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env

AGENTS = 3
SETTINGS = json.loads(sys.argv[1])
RUNNERS = SETTINGS["runners"]

register_env("spread", lambda _: ParallelPettingZooEnv(simple_spread_v3.parallel_env(max_cycles=25)))
# one more than there are runners, so that all of them are placed beside the driver, which learns
ray.init(num_cpus=RUNNERS + 1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
config = (
    PPOConfig()
    .environment("spread")
    .env_runners(
        num_env_runners=RUNNERS,
        num_envs_per_env_runner=SETTINGS["num_envs"] // max(RUNNERS, 1),
        rollout_fragment_length=SETTINGS["unroll"],
    )
    .learners(num_learners=0)
    .training(
        train_batch_size_per_learner=SETTINGS["num_envs"] * SETTINGS["unroll"],
        minibatch_size=SETTINGS["minibatch"],
        num_epochs=SETTINGS["epochs"],
        lr=SETTINGS["lr"],
    )
    .multi_agent(policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared")
    .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False))
    .debugging(seed=SETTINGS["seed"], log_level="ERROR")
)
algorithm = config.build_algo()
points: list[tuple[float, int]] = []
while len(points) < 3 or points[-1][0] - points[0][0] < SETTINGS["seconds"]:
    sampled = algorithm.train()["env_runners"]["num_env_steps_sampled_lifetime"]
    points.append((time.perf_counter(), AGENTS * int(sampled)))
algorithm.stop()
ray.shutdown()
print(json.dumps({"points": points, "version": f"ray {ray.__version__}"}))
