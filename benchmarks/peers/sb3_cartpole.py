"""stable-baselines3's side: PPO on CartPole-v1 with the settings given as JSON; prints one JSON line."""

from __future__ import annotations

import json
import resource
import sys
import time

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

SETTINGS = json.loads(sys.argv[1])


def worlds(count: int) -> DummyVecEnv:
    return DummyVecEnv([lambda: gymnasium.make("CartPole-v1", disable_env_checker=True) for _ in range(count)])


def greedy_mean(model: PPO, episodes: int = 100, copies: int = 50) -> float:
    """Every copy plays its share, as Shoal's own evaluation does."""
    env = worlds(copies)
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
    """Notes the clock after every update; stops when solved, by the same rule as Shoal's."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[float, int]] = []
        self.returns: list[float] = []
        self.solved_after: float | None = None

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            self.points.append((time.perf_counter(), self.num_timesteps))

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.returns.append(info["episode"]["r"])
        return self.solved_after is None

    def judge(self, model: PPO) -> bool:
        goal = SETTINGS.get("goal")
        if goal is None or len(self.returns) < 20 or np.mean(self.returns[-20:]) < goal:
            return False
        self.returns.clear()
        return greedy_mean(model) >= goal


class Watched(PPO):
    """Judges after every update, where Shoal does."""

    def train(self) -> None:
        super().train()
        if WATCH.judge(self):
            WATCH.solved_after = time.time() - SETTINGS["began"]


if SETTINGS.get("threads"):
    torch.set_num_threads(SETTINGS["threads"])
WATCH = Watch()
env = VecMonitor(worlds(SETTINGS["num_envs"]))
model = Watched(
    "MlpPolicy", env, n_steps=SETTINGS["unroll"], batch_size=SETTINGS["minibatch"], n_epochs=SETTINGS["epochs"],
    learning_rate=SETTINGS["lr"], seed=SETTINGS["seed"], device="cpu",
    policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "activation_fn": torch.nn.Tanh},
)  # fmt: skip
training_began = time.time()
model.learn(SETTINGS["steps"], callback=WATCH)
print(
    json.dumps(
        {
            "points": WATCH.points,
            "solved_after": WATCH.solved_after,
            "training_began_after": training_began - SETTINGS["began"],
            "steps": model.num_timesteps,
            "cpu_seconds": sum(resource.getrusage(resource.RUSAGE_SELF)[:2]),
            "version": f"stable-baselines3 {stable_baselines3.__version__}, gymnasium {gymnasium.__version__}",
        }
    )
)
