"""stable-baselines3's side: DQN on MountainCar-v0 for so many steps with the settings given as JSON; prints one JSON line."""

from __future__ import annotations

import json
import sys
import warnings

import gymnasium
import stable_baselines3
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    copies, rows = settings["num_envs"], settings["rows"]
    model = DQN(
        "MlpPolicy", make_vec_env("MountainCar-v0", copies, seed=settings["seed"]), learning_rate=settings["lr"],
        batch_size=settings["batch"], buffer_size=settings["capacity"], learning_starts=settings["warmup"],
        gamma=settings["gamma"], target_update_interval=settings["target_steps"], train_freq=rows // copies,
        gradient_steps=settings["updates"], exploration_fraction=settings["explored"] / settings["steps"],
        exploration_final_eps=settings["epsilon"], policy_kwargs={"net_arch": settings["hidden"]},
        seed=settings["seed"], device="cpu",
    )  # fmt: skip
    model.learn(settings["steps"])
    with warnings.catch_warnings(action="ignore"):
        env = make_vec_env("MountainCar-v0", 1, seed=settings["seed"] + 1000)
        mean, _ = evaluate_policy(model, env, n_eval_episodes=settings["episodes"], deterministic=True)
    version = f"stable-baselines3 {stable_baselines3.__version__}, gymnasium {gymnasium.__version__}"
    print(json.dumps({"mean_return": mean, "version": f"{version}, torch {torch.__version__}"}))


if __name__ == "__main__":
    main()
