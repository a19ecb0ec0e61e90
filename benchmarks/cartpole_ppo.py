"""PPO on CartPole-v1: Shoal and its peers, same work, same machine, same run.

Same copies, rollout, minibatch, passes and network (2 x 64 tanh, separate actor and critic), the same Python environment
object. Each peer first runs all settings of its sweep once, and the fastest goes on; then all run in turns. Prints steps/s
after warm-up, CPU seconds per million steps and most memory with all child processes, and the share of the limit
`cores / (t_env + t_inference + passes * t_train)`, whose parts are measured in the same run: once with the t_train of autograd
and once with that of Shoal's gradients by hand.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import Side, all_sides
from speed import compare

OURS = {
    "inline": {"shape": "inline"},
    "all cores in step": {"shape": "local"},
    "acting beside learning": {"shape": "beside"},
}
SB3 = {
    "1 thread": {"threads": 1},
    "default threads": {},
    "processes": {"threads": 1, "processes": True},
}
RLLIB = {
    "one process": {"runners": 0},
    "one process, 1 thread": {"runners": 0, "threads": 1},
    "1 env runner": {"runners": 1},
    "2 env runners": {"runners": 2},
    "2 env runners, 1 thread": {"runners": 2, "threads": 1},
}
SAMPLE_FACTORY = {
    "serial": {"serial": True, "workers": 1},
    "1 worker": {"serial": False, "workers": 1},
    "2 workers": {"serial": False, "workers": 2},
}


MANY = 16
"""Copies above which a process for each takes minutes to start; 64 of them made a third of the steps of one process."""


def sides_of(peers: list[str], copies: int) -> list[Side]:
    """All settings of everybody."""
    sb3 = {name: setting for name, setting in SB3.items() if copies <= MANY or not setting.get("processes")}
    sweeps = {
        "sb3": ("sb3_ppo.py", sb3),
        "rllib": ("rllib_ppo.py", RLLIB),
        "sample-factory": ("sample_factory_ppo.py", SAMPLE_FACTORY),
    }
    return all_sides("shoal_ppo.py", OURS, peers, sweeps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run, its first fifth does not count")
    parser.add_argument("--copies", type=int, default=64)
    parser.add_argument("--unroll", type=int, default=32)
    parser.add_argument("--minibatch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=4, help="passes over each batch")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--peers", nargs="*", default=["sb3", "rllib", "sample-factory"])
    parser.add_argument("--json", type=Path, help="write all measurements here")
    options = parser.parse_args()
    settings = {
        "world": "cartpole", "num_envs": options.copies, "unroll": options.unroll, "minibatch": options.minibatch,
        "epochs": options.epochs, "lr": options.lr, "seconds": options.seconds,
    }  # fmt: skip
    compare(sides_of(options.peers, options.copies), settings, options.repeats, options.json)


if __name__ == "__main__":
    main()
