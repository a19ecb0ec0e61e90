"""How fast the native particle environments step, beside mpe2's own: one core, one process, random actions, in turns.

Prints environment steps per second of CPU time of each (a step is one copy advancing once), and their ratio. Episodes end
and begin anew on both sides, and the actions are drawn before the clock starts. mpe2 steps one copy through its
`parallel_env`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from figures import median

from shoal.api.env import Array, Env
from shoal.api.experiment import EnvConfig
from shoal.envs import make_env

PEERS = {
    "shoal/spread": "simple_spread_v3",
    "shoal/tag": "simple_tag_v3",
    "shoal/speaker-listener": "simple_speaker_listener_v4",
}
DRAWN = 64


def native(env: Env, actions: list[dict[str, Array]], seconds: float) -> float:
    """Steps per second of all copies."""
    began, steps = time.process_time(), 0
    while time.process_time() - began < seconds:
        for each in actions:
            steps += env.step(each).advanced
    return steps / (time.process_time() - began)


def peer(env: Any, actions: list[dict[str, Any]], seconds: float) -> float:
    """Steps per second of the one copy."""
    began, steps = time.process_time(), 0
    while time.process_time() - began < seconds:
        for each in actions:
            env.step(each)
            steps += 1
            if not env.agents:
                env.reset()
    return steps / (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", choices=PEERS, default="shoal/spread")
    parser.add_argument("--copies", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"{options.env}, {options.copies} copies, one core, load {os.getloadavg()[0]:.2f}", flush=True)
    random = np.random.default_rng(0)
    env = make_env(EnvConfig(id=options.env), options.copies)
    env.reset(0)
    shapes = {name: (options.copies, len(group.agents)) for name, group in env.groups.items()}
    choices = {name: int(group.action_space.n) for name, group in env.groups.items()}  # type: ignore[attr-defined]
    ours = [{name: random.integers(choices[name], size=shapes[name]) for name in shapes} for _ in range(DRAWN)]
    world = importlib.import_module(f"mpe2.{PEERS[options.env]}").parallel_env()
    world.reset(seed=0)
    spaces = {agent: int(world.action_space(agent).n) for agent in world.possible_agents}
    theirs = [{agent: int(random.integers(n)) for agent, n in spaces.items()} for _ in range(DRAWN)]
    fast, slow = [], []
    for _ in range(options.repeats):
        fast.append(native(env, ours, options.seconds))
        slow.append(peer(world, theirs, options.seconds))
        print(
            f"  native {fast[-1]:12,.0f} steps/s   mpe2 {slow[-1]:8,.0f} steps/s   {fast[-1] / slow[-1]:7,.0f} x",
            flush=True,
        )
    print(f"native {median(fast)} steps/s per core")
    print(f"mpe2   {median(slow)} steps/s per core")
    print(f"ratio  {statistics.median(fast) / statistics.median(slow):,.0f}")


if __name__ == "__main__":
    main()
