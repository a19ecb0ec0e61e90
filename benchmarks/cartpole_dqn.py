"""DQN on CartPole-v1: Shoal and its peers, same work, same machine, same run.

Same copies, steps between updates, updates of as many rows, network (2 x 64 relu), uniform replay of the same capacity and target
interval, neither double nor dueling, the same Python environment object. Each peer first runs all settings of its sweep once,
and the fastest goes on; then all run in turns. Prints steps/s after warm-up, CPU seconds per million steps, most memory with all
child processes, and the rows that were trained per environment step as each side counts them: they show that the work is equal.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import Side, all_sides
from speed import compare

OURS = {
    "inline": {"shape": "inline"},
    "inline, single transitions": {"shape": "inline", "single": True},
    "acting beside learning": {"shape": "beside"},
}
SB3 = {
    "1 thread": {"threads": 1},
    "default threads": {},
}
RLLIB = {
    "one process": {"runners": 0},
    "one process, 1 thread": {"runners": 0, "threads": 1},
    "1 env runner, 1 thread": {"runners": 1, "threads": 1},
}


def sides_of(peers: list[str]) -> list[Side]:
    """All settings of everybody."""
    return all_sides("shoal_dqn.py", OURS, peers, {"sb3": ("sb3_dqn.py", SB3), "rllib": ("rllib_dqn.py", RLLIB)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run, its first fifth does not count")
    parser.add_argument("--copies", type=int, default=16)
    parser.add_argument("--unroll", type=int, default=8, help="steps of every copy between two rounds of updates")
    parser.add_argument("--updates", type=int, default=16, help="of a round")
    parser.add_argument("--batch", type=int, default=128, help="rows of an update")
    parser.add_argument(
        "--target-every", type=int, default=100, help="updates between two copies into the target network"
    )
    parser.add_argument("--capacity", type=int, default=50_000, help="rows that are kept")
    parser.add_argument("--warmup", type=int, default=1_000, help="steps before the first update")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--peers", nargs="*", default=["sb3", "rllib"])
    parser.add_argument("--json", type=Path, help="write all measurements here")
    options = parser.parse_args()
    taken = ("unroll", "updates", "batch", "target_every", "capacity", "warmup", "lr", "seconds")
    settings = {"world": "cartpole", "num_envs": options.copies, **{name: getattr(options, name) for name in taken}}
    compare(sides_of(options.peers), settings, options.repeats, options.json, limited=False)


if __name__ == "__main__":
    main()
