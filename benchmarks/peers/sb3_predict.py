"""stable-baselines3's `model.predict` on one observation, greedily, in one thread."""

from __future__ import annotations

import functools
import json
import sys
import time
import timeit

import gymnasium
import stable_baselines3
import torch


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    env = gymnasium.make(settings["id"])
    model = stable_baselines3.PPO("MlpPolicy", env, device="cpu")
    observation, _ = env.reset(seed=0)
    calls, repeats = settings["calls"], settings["rounds"] + 1
    predict = functools.partial(model.predict, observation, deterministic=True)
    rounds = timeit.repeat(predict, timer=time.process_time, number=calls, repeat=repeats)
    microseconds = sorted(seconds / calls * 1e6 for seconds in rounds[1:])
    print(json.dumps({"microseconds": microseconds, "version": f"sb3 {stable_baselines3.__version__}"}))


if __name__ == "__main__":
    main()
