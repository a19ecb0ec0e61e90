"""stable-baselines3's side: DQN on CartPole-v1 with the settings given as JSON, for some seconds; prints one JSON line."""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium
import stable_baselines3
import torch
from sb3_ppo import Watch, cartpoles
from stable_baselines3 import DQN


def model_of(settings: dict[str, Any]) -> DQN:
    """The same work; its target interval is in steps, ours in updates."""
    rows = settings["num_envs"] * settings["unroll"]
    return DQN(
        "MlpPolicy", cartpoles(settings["num_envs"]), learning_rate=settings["lr"], buffer_size=settings["capacity"],
        learning_starts=settings["warmup"], batch_size=settings["batch"], train_freq=settings["unroll"],
        gradient_steps=settings["updates"], target_update_interval=settings["target_every"] * rows // settings["updates"],
        max_grad_norm=10.0, seed=settings["seed"], device="cpu",
        policy_kwargs={"net_arch": [64, 64], "activation_fn": torch.nn.ReLU},
    )  # fmt: skip


def main() -> None:
    settings = json.loads(sys.argv[1])
    if settings.get("threads"):
        torch.set_num_threads(settings["threads"])
    watch, model = Watch(settings), model_of(settings)
    model.learn(10**9, callback=watch)
    trained = model._n_updates * settings["batch"] / (model.num_timesteps - settings["warmup"])
    version = f"stable-baselines3 {stable_baselines3.__version__}, gymnasium {gymnasium.__version__}"
    print(json.dumps({"points": watch.points, "trained": trained, "version": f"{version}, torch {torch.__version__}"}))


if __name__ == "__main__":
    main()
