"""RLlib's side: PPO or APPO on Pong with the settings given as JSON, for some seconds; prints one JSON line.

APPO samples while it learns, from experience that is some versions old; PPO waits. Steps are those sampled.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import ale_py
import gymnasium
import ray
import torch
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack
from ray.tune.registry import register_env
from rllib_work import begin, with_work

NATURE = [[32, 8, 4], [64, 4, 2], [64, 3, 1]]


def pong(_: Any = None) -> Any:
    gymnasium.register_envs(ale_py)
    env = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0, full_action_space=False)
    return wrap_atari_for_new_api_stack(env, dim=84, framestack=4)


def config_of(settings: dict[str, Any]) -> Any:
    kind = APPOConfig() if settings["algorithm"] == "APPO" else PPOConfig()
    network = DefaultModelConfig(conv_filters=NATURE, head_fcnet_hiddens=[512], vf_share_layers=True)
    return (
        with_work(kind.environment("pong", clip_rewards=True), settings)
        .reporting(min_time_s_per_iteration=1 if settings["algorithm"] == "APPO" else None)
        .rl_module(model_config=network)
    )


def main() -> None:
    settings = json.loads(sys.argv[1])
    register_env("pong", pong)
    begin(settings["runners"])
    algorithm = config_of(settings).build_algo()
    points: list[tuple[float, int]] = []
    while len(points) < 3 or points[-1][0] - points[0][0] < settings["seconds"]:
        sampled = algorithm.train().get("env_runners", {}).get("num_env_steps_sampled_lifetime")
        if sampled and (not points or sampled > points[-1][1]):  # many of APPO's rows come between two samples
            points.append((time.time(), int(sampled)))
    algorithm.stop()
    ray.shutdown()
    versions = f"ray {ray.__version__}, ale-py {ale_py.__version__}, torch {torch.__version__}"
    print(json.dumps({"points": points, "version": versions}))


if __name__ == "__main__":
    main()
