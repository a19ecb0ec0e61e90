"""PPO on Pong with the network of Mnih et al. (2015), on all cores: Shoal and its peers, same work, same machine, same run.

Same copies, rollout, minibatch and passes, at 1 and at 4 passes. Frames are 84 x 84 in grey, 4 stacked, every fourth of them
seen; Shoal steps ale-py's own batch, the peers their own wrappers of single games. Each peer first runs all settings of its
sweep once, and the fastest goes on; then all run in turns. Prints what `cartpole_ppo.py` prints; t_env is that of ale-py's batch.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from harness import Side, all_sides
from speed import compare

OURS = {
    "all cores in step": {"shape": "local"},
    "acting beside learning": {"shape": "beside"},
}
SB3 = {
    "one process": {},
    "one process, 1 thread": {"threads": 1},
}
RLLIB = {
    "PPO, 2 env runners": {"algorithm": "PPO", "runners": 2},
    "APPO, 1 env runner": {"algorithm": "APPO", "runners": 1},
    "APPO, 2 env runners": {"algorithm": "APPO", "runners": 2},
}


def sides_of(peers: list[str]) -> list[Side]:
    """All settings of everybody."""
    return all_sides("shoal_ppo.py", OURS, peers, {"sb3": ("sb3_ppo.py", SB3), "rllib": ("rllib_atari.py", RLLIB)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=40.0, help="of each run, its first fifth does not count")
    parser.add_argument("--copies", type=int, default=32)
    parser.add_argument("--unroll", type=int, default=64)
    parser.add_argument("--minibatch", type=int, default=256)
    parser.add_argument("--epochs", type=int, nargs="*", default=[1, 4], help="passes over each batch")
    parser.add_argument("--peers", nargs="*", default=["sb3", "rllib"])
    parser.add_argument("--json", type=Path, help="write all measurements here, one file for each number of passes")
    options = parser.parse_args()
    if importlib.util.find_spec("ale_py") is None:
        print("no Atari here: pip install ale-py==0.12.1")
        return
    for epochs in options.epochs:
        settings = {
            "world": "pong", "num_envs": options.copies, "unroll": options.unroll, "minibatch": options.minibatch,
            "epochs": epochs, "lr": 2.5e-4, "ent_coef": 0.01, "seconds": options.seconds,
        }  # fmt: skip
        path = options.json and options.json.with_stem(f"{options.json.stem}_{epochs}")
        compare(sides_of(options.peers), settings, options.repeats, path)


if __name__ == "__main__":
    main()
