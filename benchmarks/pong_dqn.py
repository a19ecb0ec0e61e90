"""DQN on Pong with the network of Mnih et al. (2015): learner updates per second of Shoal and its peers, same work, same run.

Same copies, steps between updates, updates of as many rows, uniform replay of the same capacity and target interval, neither
double nor dueling. Frames are 84 x 84 in grey, 4 stacked, every fourth of them seen; Shoal steps ale-py's own batch, the peers
their own wrappers of single games. Each peer first runs all settings of its sweep once, with one thread and with more, and the
fastest goes on; then all run in turns. All figures are of the time in which they learn: the slope behind the first fifth of the
updates. The limit is that of cores which do nothing but step, decide and update, by plain torch (`peers/dqn_limit.py`).
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from harness import Side, all_sides
from updates import compare

OURS = {
    "inline": {"shape": "inline"},
    "inline, single transitions": {"shape": "inline", "single": True},
    "inline, 2 threads": {"shape": "inline", "threads": 2},
    "inline, 2 threads, single transitions": {"shape": "inline", "threads": 2, "single": True},
    "acting beside learning": {"shape": "beside"},
    "acting beside learning, 2 threads": {"shape": "beside", "threads": 2},
    "all cores in step": {"shape": "local"},
    "all cores in step, single transitions": {"shape": "local", "single": True},
    "placement: auto": {"shape": "auto"},
}
SB3 = {
    "1 thread": {"threads": 1},
    "2 threads": {"threads": 2},
}
RLLIB = {
    "one process": {"runners": 0},
    "1 env runner": {"runners": 1},
    "1 env runner, 1 thread": {"runners": 1, "threads": 1},
}


def sides_of(peers: list[str], ours: list[str]) -> list[Side]:
    """Settings of everybody."""
    chosen = {words: OURS[words] for words in ours}
    return all_sides("shoal_dqn.py", chosen, peers, {"sb3": ("sb3_dqn.py", SB3), "rllib": ("rllib_dqn.py", RLLIB)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run, with its warm-up")
    parser.add_argument("--copies", type=int, default=8)
    parser.add_argument("--unroll", type=int, default=4, help="steps of every copy between two rounds of updates")
    parser.add_argument("--updates", type=int, default=8, help="of a round")
    parser.add_argument("--batch", type=int, default=32, help="rows of an update")
    parser.add_argument(
        "--target-every", type=int, default=250, help="updates between two copies into the target network"
    )
    parser.add_argument("--capacity", type=int, default=10_000, help="rows that are kept")
    parser.add_argument("--warmup", type=int, default=320, help="steps before the first update")
    parser.add_argument("--peers", nargs="*", default=["sb3", "rllib"])
    parser.add_argument("--ours", nargs="*", default=list(OURS), choices=list(OURS), help="which of our settings")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    options = parser.parse_args()
    if importlib.util.find_spec("ale_py") is None:
        print("no Atari here: pip install ale-py==0.12.1")
        return
    taken = ("unroll", "updates", "batch", "target_every", "capacity", "warmup", "seconds")
    settings = {"world": "pong", "num_envs": options.copies, **{name: getattr(options, name) for name in taken}}
    compare(
        sides_of(options.peers, options.ours),
        {**settings, "lr": 1e-4},
        options.repeats,
        options.json,
        limited_by="dqn_limit.py",
    )


if __name__ == "__main__":
    main()
