"""The wall time of a search: `shoal tune` beside rl-zoo3, the same trials of PPO on CartPole on the same cores, in turns.

    python benchmarks/tune_rlzoo.py [--space zoo|rate] [--trials 16] [--steps 20480] [--repeats 3] [--only WAY]

Settings are drawn by ours and given to theirs, so both train the same ones for as many steps, and play as many greedy episodes for
a score; nobody is pruned. `zoo`: from where the zoo itself looks (minibatches, epochs, networks, and so on), but for rollouts that
hold less than the largest minibatch or more than half of all steps. `rate`: learning rates from 1e-6 to 1, with the zoo's own
numbers of CartPole for the rest, among them 20 passes over one minibatch of 256. The zoo has two ways to use two cores, threads
and processes that share a journal; its best is compared. Ours includes the confirmation of the best on one fresh seed, which
theirs has not. Exit code 1: not four times as fast.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import cores, machine, peer_python, run_child

from shoal.population.folder import PopulationFolder
from shoal.population.tune import trials_of

BAR = 4.0
EVALUATIONS, EPISODES = 2, 10
ZOO: dict[str, Any] = {
    "n_envs": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20, "ent_coef": 0.0,
    "clip_range": 0.2,
}  # fmt: skip
"""Of the zoo's CartPole-v1, with clipping that stays as it is."""
SPACES: dict[str, dict[str, Any]] = {
    "rate": {"algorithm.lr": {"log": [1e-6, 1.0]}},
    "zoo": {
        "algorithm.lr": {"log": [1e-5, 2e-3]},
        "algorithm.minibatch": {"choice": [4, 8, 16, 32, 64, 128, 256, 512, 1024]},
        "algorithm.unroll": {"choice": [128, 256, 512, 1024]},
        "algorithm.epochs": {"choice": [1, 5, 10, 20]},
        "algorithm.entropy": {"log": [1e-8, 0.1]},
        "algorithm.clip": {"choice": [0.1, 0.2, 0.3, 0.4]},
        "algorithm.max_grad_norm": {"linear": [0.3, 2.0]},
        "model.hidden": {"choice": [[64], [64, 64], [256, 256]]},
        "model.activation": {"choice": ["tanh", "relu"]},
    },
}
THEIRS = {
    "algorithm.lr": "learning_rate", "algorithm.minibatch": "batch_size", "algorithm.unroll": "n_steps",
    "algorithm.epochs": "n_epochs", "algorithm.entropy": "ent_coef", "algorithm.clip": "clip_range",
    "algorithm.max_grad_norm": "max_grad_norm", "model.hidden": "hidden", "model.activation": "activation",
}  # fmt: skip
"""What the zoo calls it."""
WAYS = {
    "rl-zoo3, 2 processes": {"processes": 2, "jobs": 1, "threads": 1},
    "rl-zoo3, 2 threads": {"processes": 1, "jobs": 2, "threads": 1},
}


def recipe(space: str, trials: int, steps: int, seed: int) -> dict[str, Any]:
    """The same for us."""
    unroll = ZOO["n_steps"] if space == "rate" else 128
    algorithm = {
        "name": "ppo", "lr": 1e-3, "unroll": unroll, "minibatch": ZOO["batch_size"], "epochs": ZOO["n_epochs"],
        "gamma": ZOO["gamma"], "lam": ZOO["gae_lambda"], "entropy": 0.0 if space == "rate" else 1e-8, "clip": ZOO["clip_range"],
        "max_grad_norm": 0.5,
    }  # fmt: skip
    tune = {
        "space": SPACES[space], "trials": trials, "sampler": "random", "pruner": "none",
        "every": f"{steps // EVALUATIONS} steps", "episodes": EPISODES, "top": 1, "seeds": 1,
    }  # fmt: skip
    return {
        "env": {"id": "CartPole-v1", "num_envs": ZOO["n_envs"]}, "algorithm": algorithm, "tune": tune,
        "model": {"name": "mlp", "hidden": [64, 64], "activation": "tanh"}, "stop": {"steps": steps}, "seed": seed,
    }  # fmt: skip


def ours(space: str, trials: int, steps: int, seed: int) -> tuple[float, list[dict[str, Any]]]:
    """Seconds from before the command starts until it has ended, and the settings that it tried, in the zoo's words."""
    shoal = str(Path(sys.executable).with_name("shoal"))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "search.yaml").write_text(json.dumps(recipe(space, trials, steps, seed)))
        began = time.perf_counter()
        subprocess.run([shoal, "tune", "search.yaml"], cwd=folder, check=True, capture_output=True)
        seconds = time.perf_counter() - began
        state = PopulationFolder(Path(folder) / "runs" / "search-tune").state()
        found = trials_of(state)
        assert all(member.state == "ended" for member in found), "every trial came to its end"
        return seconds, [{THEIRS[key]: value for key, value in each.facts["values"].items()} for each in found]


def main() -> None:
    """In turns; the ratio of medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--space", choices=[*SPACES], default="zoo")
    parser.add_argument("--only", choices=[*WAYS], help="of the zoo's two ways, the one that is known to be the faster")
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20_480)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    python = peer_python("rl-zoo3")
    print(
        f"{machine()}: {options.trials} trials of {options.steps:,} steps ({options.space}) on {cores()} cores",
        flush=True,
    )
    ways = {name: way for name, way in WAYS.items() if options.only in (None, name)}
    seconds: dict[str, list[float]] = {"shoal": [], **{name: [] for name in ways}}
    for repeat in range(options.repeats):
        took, tried = ours(options.space, options.trials, options.steps, repeat + 1)
        seconds["shoal"].append(took)
        print(f"  repeat {repeat + 1}: {'shoal':22} {took:7.1f} s", flush=True)
        for name, way in ways.items():
            asked = {"steps": options.steps, "evaluations": EVALUATIONS, "episodes": EPISODES, "params": ZOO}
            said = run_child(python, "rlzoo_tune.py", {"trials": tried, **asked, **way}, timeout=3600)
            assert said["trials"] == options.trials, said
            seconds[name].append(said["seconds"])
            print(f"  repeat {repeat + 1}: {name:22} {said['seconds']:7.1f} s", flush=True)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    best = min(ways, key=lambda name: medians[name])
    ratio = medians[best] / medians["shoal"]
    print(f"shoal {medians['shoal']:.1f} s, {best} {medians[best]:.1f} s: {ratio:.2f} times as fast (bar {BAR:g})")
    if ratio < BAR:
        sys.exit(1)


if __name__ == "__main__":
    main()
