"""stable-baselines3's side: SAC on HalfCheetah-v5 with the settings given as JSON, for some seconds; prints one JSON line."""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium
import stable_baselines3
import torch
from sb3_dqn import Count
from stable_baselines3 import SAC
from stable_baselines3.common.vec_env import DummyVecEnv


def model_of(settings: dict[str, Any]) -> SAC:
    """The same work, after every step of all copies. Its networks are two layers of 256 by default."""
    copies = settings["num_envs"]
    env = DummyVecEnv([lambda: gymnasium.make("HalfCheetah-v5", disable_env_checker=True) for _ in range(copies)])
    return SAC(
        "MlpPolicy", env, learning_rate=settings["lr"], buffer_size=settings["capacity"],
        learning_starts=settings["warmup"], batch_size=settings["batch"], train_freq=1,
        gradient_steps=settings["updates"] // settings["unroll"], seed=settings["seed"], device="cpu",
        policy_kwargs={"net_arch": [256, 256]},
    )  # fmt: skip


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(settings["threads"])
    watch, model = Count(settings), model_of(settings)
    model.learn(10**9, callback=watch)
    version = f"stable-baselines3 {stable_baselines3.__version__}, gymnasium {gymnasium.__version__}"
    document = {"points": watch.points, "updates": watch.updates}
    print(json.dumps({**document, "version": f"{version}, torch {torch.__version__}"}))


if __name__ == "__main__":
    main()
