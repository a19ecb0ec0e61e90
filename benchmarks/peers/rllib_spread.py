"""RLlib's side: shared PPO on mpe2's spread with the settings given as JSON; prints one JSON line."""

from __future__ import annotations

import json
import sys
import time

import ray
from mpe2 import simple_spread_v3
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env
from rllib_work import begin, with_work

AGENTS = 3
SETTINGS = json.loads(sys.argv[1])

register_env("spread", lambda _: ParallelPettingZooEnv(simple_spread_v3.parallel_env(max_cycles=25)))
begin(SETTINGS["runners"])
network = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
config = (
    with_work(PPOConfig().environment("spread"), SETTINGS)
    .multi_agent(policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared")
    .rl_module(model_config=network)
)
algorithm = config.build_algo()
points: list[tuple[float, int]] = []
while len(points) < 3 or points[-1][0] - points[0][0] < SETTINGS["seconds"]:
    sampled = algorithm.train()["env_runners"]["num_env_steps_sampled_lifetime"]
    points.append((time.perf_counter(), AGENTS * int(sampled)))
algorithm.stop()
ray.shutdown()
print(json.dumps({"points": points, "version": f"ray {ray.__version__}"}))
