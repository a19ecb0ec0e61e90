"""stable-baselines3's side: PPO with the settings given as JSON, for some seconds or until solved; prints one JSON line."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack, VecMonitor

WINDOW = 20
"""Training episodes whose mean calls for a verification."""
FEWEST = 3
"""Updates of a run, however long they take."""


def cartpoles(count: int, *, processes: bool = False) -> VecEnv:
    kind = SubprocVecEnv if processes else DummyVecEnv
    return kind([lambda: gymnasium.make("CartPole-v1", disable_env_checker=True) for _ in range(count)])


def world_of(settings: dict[str, Any]) -> VecEnv:
    count, processes = settings["num_envs"], settings.get("processes", False)
    if settings["world"] == "cartpole":
        return VecMonitor(cartpoles(count, processes=processes))
    kind = SubprocVecEnv if processes else DummyVecEnv
    return VecFrameStack(make_atari_env("ale_py:PongNoFrameskip-v4", count, settings["seed"], vec_env_cls=kind), 4)


def greedy_mean(model: PPO, episodes: int = 100, copies: int = 50) -> float:
    """Every copy plays its share, as Shoal's own confirmation does."""
    env = cartpoles(copies)
    env.seed(12345)
    observation, running = env.reset(), np.zeros(copies)
    finished: list[list[float]] = [[] for _ in range(copies)]
    while any(len(own) < episodes // copies for own in finished):
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, done, _ = env.step(action)
        running += reward
        for i in np.nonzero(done)[0]:
            finished[i].append(running[i])
            running[i] = 0.0
    return float(np.mean([r for own in finished for r in own[: episodes // copies]]))


class Watch(BaseCallback):
    """Notes the clock after every update. Ends when the seconds are over, or when greedy episodes confirm the goal."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.seconds, self.goal = settings["seconds"], settings.get("goal")
        self.points: list[tuple[float, int]] = []
        self.returns: list[float] = []
        self.verified: float | None = None

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            self.points.append((time.time(), self.num_timesteps))
            self._judge()

    def _judge(self) -> None:
        if self.goal is None or len(self.returns) < WINDOW or np.mean(self.returns[-WINDOW:]) < self.goal:
            return
        self.returns.clear()
        mean = greedy_mean(self.model)
        self.verified = mean if mean >= self.goal else None

    def _on_step(self) -> bool:
        if self.goal is not None:
            self.returns += [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        late = len(self.points) >= FEWEST and time.time() - self.points[0][0] > self.seconds
        return self.verified is None and not late


def model_of(settings: dict[str, Any], env: VecEnv) -> PPO:
    """Networks of the same size; what the settings do not name is as the library has it."""
    given = {name: settings[name] for name in ("gamma", "gae_lambda", "ent_coef") if name in settings}
    small = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "activation_fn": torch.nn.Tanh}
    kind, kwargs = ("MlpPolicy", small) if settings["world"] == "cartpole" else ("CnnPolicy", {})
    lr = settings["lr"]
    return PPO(
        kind, env, n_steps=settings["unroll"], batch_size=settings["minibatch"], n_epochs=settings["epochs"],
        learning_rate=(lambda left: lr * left) if settings.get("falling") else lr,
        seed=settings["seed"], device="cpu", policy_kwargs=kwargs, **given,
    )  # fmt: skip


def main() -> None:
    settings = json.loads(sys.argv[1])
    if settings.get("threads"):
        torch.set_num_threads(settings["threads"])
    env, watch = world_of(settings), Watch(settings)
    model = model_of(settings, env)
    model.learn(settings.get("steps", 10**9), callback=watch)
    env.close()
    version = f"stable-baselines3 {stable_baselines3.__version__}, gymnasium {gymnasium.__version__}"
    document = {"points": watch.points, "verified": watch.verified, "steps": model.num_timesteps}
    print(json.dumps({**document, "version": f"{version}, torch {torch.__version__}"}))


if __name__ == "__main__":  # processes of SubprocVecEnv import this file
    main()
