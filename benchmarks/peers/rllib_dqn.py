"""RLlib's side: DQN on CartPole-v1 or Pong with the settings given as JSON, for some seconds; prints one JSON line."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import gymnasium
import ray
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env
from rllib_atari import NATURE, pong
from rllib_ppo import cartpole
from rllib_work import begin, placed

WORLDS = {"cartpole": cartpole, "pong": pong}
NETWORKS = {
    "cartpole": DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="relu", head_fcnet_hiddens=[]),
    "pong": DefaultModelConfig(conv_filters=[[*layer, "valid"] for layer in NATURE], head_fcnet_hiddens=[512]),
}


def config_of(settings: dict[str, Any]) -> Any:
    """The same work; its target interval is in steps, ours in updates."""
    runners, rows = settings["runners"], settings["num_envs"] * settings["unroll"]
    # It takes the driver for one more env runner when it turns this into updates per round.
    counted = rows * (runners + 1) // max(runners, 1)
    world = settings["world"]
    return (
        placed(DQNConfig().environment(world, clip_rewards=world == "pong"), settings)
        .training(
            lr=settings["lr"], train_batch_size_per_learner=settings["batch"], grad_clip=10.0,
            training_intensity=settings["updates"] * settings["batch"] / counted,
            target_network_update_freq=settings["target_every"] * rows // settings["updates"],
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": settings["capacity"]},
            num_steps_sampled_before_learning_starts=settings["warmup"],
            double_q=False, dueling=False, num_atoms=1, n_step=1,
        )
        .reporting(min_sample_timesteps_per_iteration=0, min_time_s_per_iteration=1)
        .rl_module(model_config=NETWORKS[world])
    )  # fmt: skip


def main() -> None:
    settings = json.loads(sys.argv[1])
    if settings.get("threads"):
        torch.set_num_threads(settings["threads"])
    register_env(settings["world"], WORLDS[settings["world"]])
    begin(settings["runners"])
    algorithm = config_of(settings).build_algo()
    points: list[tuple[float, int]] = []
    updates: list[tuple[float, float]] = []
    while len(points) < 3 or points[-1][0] - points[0][0] < settings["seconds"]:
        row = algorithm.train()
        points.append((time.time(), int(row["env_runners"]["num_env_steps_sampled_lifetime"])))
        trained = row.get("learners", {}).get("default_policy", {}).get("num_module_steps_trained_lifetime", 0)
        updates.append((points[-1][0], float(trained) / settings["batch"]))
    algorithm.stop()
    ray.shutdown()
    version = f"ray {ray.__version__}, gymnasium {gymnasium.__version__}, torch {torch.__version__}"
    print(json.dumps({"points": points, "updates": updates, "version": version}))


if __name__ == "__main__":
    main()
