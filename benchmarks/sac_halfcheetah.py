"""SAC on HalfCheetah-v5 with layers of 256: learner updates per second of Shoal and stable-baselines3, same work, same run.

Same copies, one update of 256 rows for every step, two hidden layers of 256 in the actor and in each of two critics, uniform
replay of the same capacity, soft targets after every update and a learned temperature. The peer first runs with one thread and
with two, and the faster goes on; then all run in turns. All figures are of the time in which they learn: the slope behind the
first fifth of the updates. The limit is that of cores which do nothing but step, decide and update, by plain torch
(`peers/sac_limit.py`).
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from harness import Side, all_sides
from pins import MUJOCO
from updates import compare

OURS = {
    "inline": {"shape": "inline", "single": True},
    "inline, 2 threads": {"shape": "inline", "threads": 2, "single": True},
    "inline, 2 threads, sequences": {"shape": "inline", "threads": 2},
    "acting beside learning": {"shape": "beside", "single": True},
    "acting beside learning, 2 threads": {"shape": "beside", "threads": 2, "single": True},
    "all cores in step": {"shape": "local", "single": True},
    "placement: auto": {"shape": "auto", "single": True},
}
SB3 = {
    "1 thread": {"threads": 1},
    "2 threads": {"threads": 2},
}


def sides_of(peers: list[str], ours: list[str]) -> list[Side]:
    """Settings of everybody."""
    chosen = {words: OURS[words] for words in ours}
    return all_sides("shoal_sac.py", chosen, peers, {"sb3": ("sb3_sac.py", SB3)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run, with its warm-up")
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--unroll", type=int, default=4, help="steps of a sequence, where one is drawn as a whole")
    parser.add_argument("--updates", type=int, default=16, help="after so many steps of every copy")
    parser.add_argument("--batch", type=int, default=256, help="rows of an update")
    parser.add_argument("--capacity", type=int, default=100_000, help="rows that are kept")
    parser.add_argument("--warmup", type=int, default=1_000, help="steps before the first update")
    parser.add_argument("--peers", nargs="*", default=["sb3"])
    parser.add_argument("--ours", nargs="*", default=list(OURS), choices=list(OURS), help="which of our settings")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    options = parser.parse_args()
    if importlib.util.find_spec("mujoco") is None:
        print(f"no MuJoCo here: pip install 'gymnasium[mujoco]' {MUJOCO}")
        return
    taken = ("unroll", "updates", "batch", "capacity", "warmup", "seconds")
    settings = {"num_envs": options.copies, "lr": 3e-4, **{name: getattr(options, name) for name in taken}}
    compare(sides_of(options.peers, options.ours), settings, options.repeats, options.json, limited_by="sac_limit.py")


if __name__ == "__main__":
    main()
