"""stable-baselines3's side: DQN on CartPole-v1 or Pong with the settings given as JSON, for some seconds; prints one JSON line."""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium
import stable_baselines3
import torch
from sb3_ppo import Watch, cartpoles, world_of
from stable_baselines3 import DQN

SMALL = {"net_arch": [64, 64], "activation_fn": torch.nn.ReLU}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole": ("MlpPolicy", SMALL),
    "pong": ("CnnPolicy", {"net_arch": []}),
}
"""Of each environment; the one of Mnih et al. has its 512 units before `net_arch`."""


class Count(Watch):
    """Notes the updates too."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.updates: list[tuple[float, int]] = []

    def _on_rollout_start(self) -> None:
        super()._on_rollout_start()
        if self.num_timesteps:
            self.updates.append((self.points[-1][0], self.model._n_updates))


def model_of(settings: dict[str, Any]) -> DQN:
    """The same work; its target interval is in steps, ours in updates."""
    rows = settings["num_envs"] * settings["unroll"]
    kind, network = NETWORKS[settings["world"]]
    env = cartpoles(settings["num_envs"]) if settings["world"] == "cartpole" else world_of(settings)
    return DQN(
        kind, env, learning_rate=settings["lr"], buffer_size=settings["capacity"],
        learning_starts=settings["warmup"], batch_size=settings["batch"], train_freq=settings["unroll"],
        gradient_steps=settings["updates"], target_update_interval=settings["target_every"] * rows // settings["updates"],
        max_grad_norm=10.0, seed=settings["seed"], device="cpu",
        policy_kwargs=network,
    )  # fmt: skip


def main() -> None:
    settings = json.loads(sys.argv[1])
    if settings.get("threads"):
        torch.set_num_threads(settings["threads"])
    watch, model = Count(settings), model_of(settings)
    model.learn(10**9, callback=watch)
    version = f"stable-baselines3 {stable_baselines3.__version__}, gymnasium {gymnasium.__version__}"
    document = {"points": watch.points, "updates": watch.updates}
    print(json.dumps({**document, "version": f"{version}, torch {torch.__version__}"}))


if __name__ == "__main__":
    main()
