"""RLlib's side: PPO on CartPole-v1 with the settings given as JSON, for some seconds or until solved; prints one JSON line."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import gymnasium
import numpy as np
import ray
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env
from rllib_work import begin, with_work

WINDOW = 20
"""Training episodes whose mean calls for a verification."""


def cartpole(_: Any = None) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1", disable_env_checker=True)


def build(settings: dict[str, Any]) -> Algorithm:
    """Env runners beside the driver, which learns; none of them: all in one process."""
    register_env("cartpole", cartpole)
    begin(settings["runners"])
    given = {
        name: settings[name] for name in ("gamma", "lambda_", "vf_loss_coeff", "vf_clip_param") if name in settings
    }
    network = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
    config = (
        with_work(PPOConfig().environment("cartpole"), settings, **given)
        .reporting(metrics_num_episodes_for_smoothing=WINDOW)
        .rl_module(model_config=network)
    )
    return config.build_algo()


def greedy_mean(algorithm: Algorithm, episodes: int = 100) -> float:
    """All of them side by side, until each is over."""
    module, envs = algorithm.get_module(), [cartpole() for _ in range(episodes)]
    observations = np.stack([env.reset(seed=12345 + i)[0] for i, env in enumerate(envs)])
    returns, playing = np.zeros(episodes), np.ones(episodes, bool)
    while playing.any():
        rows = np.nonzero(playing)[0]
        with torch.no_grad():
            said = module.forward_inference({"obs": torch.from_numpy(observations[rows])})
        for row, action in zip(rows, said["action_dist_inputs"].argmax(-1).tolist(), strict=True):
            observations[row], reward, terminated, truncated, _ = envs[row].step(action)
            returns[row] += reward
            playing[row] = not (terminated or truncated)
    return float(returns.mean())


def learn(algorithm: Algorithm, settings: dict[str, Any]) -> tuple[list[tuple[float, int]], float | None]:
    """Until the seconds are over, or greedy episodes confirm the goal."""
    points: list[tuple[float, int]] = []
    goal = settings.get("goal")
    while len(points) < 3 or points[-1][0] - points[0][0] < settings["seconds"]:
        row = algorithm.train()["env_runners"]
        points.append((time.time(), int(row["num_env_steps_sampled_lifetime"])))
        if goal and row.get("episode_return_mean", 0.0) >= goal:
            mean = greedy_mean(algorithm)
            if mean >= goal:
                return points, mean
    return points, None


def main() -> None:
    settings = json.loads(sys.argv[1])
    if settings.get("threads"):
        torch.set_num_threads(settings["threads"])
    algorithm = build(settings)
    points, verified = learn(algorithm, settings)
    algorithm.stop()
    ray.shutdown()
    version = f"ray {ray.__version__}, gymnasium {gymnasium.__version__}, torch {torch.__version__}"
    print(json.dumps({"points": points, "verified": verified, "steps": points[-1][1], "version": version}))


if __name__ == "__main__":
    main()
