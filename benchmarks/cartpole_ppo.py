"""PPO on CartPole-v1, one process against one process: Shoal inline and stable-baselines3, same work, same machine, same run.

Same network (2 x 64 tanh, separate actor and critic), same batch, minibatch and epochs, the same Python environment object.
Runs are interleaved and repeated; the peer's best thread setting is kept. Prints steps/s after warm-up, the ratio, CPU seconds
per million steps, and seconds from process start to solved (mean of 20 training episodes >= 475, confirmed by 100 greedy ones).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from harness import median, peer_python, run_child, slope

SETTINGS = {"num_envs": 16, "unroll": 128, "minibatch": 256, "epochs": 4, "lr": 1e-3}
PEER = ["torch==2.13.0", "stable-baselines3==2.9.0", "gymnasium==1.4.0", "numpy==2.4.6"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=65_536)
    parser.add_argument("--minibatch", type=int, default=SETTINGS["minibatch"])
    parser.add_argument("--epochs", type=int, default=SETTINGS["epochs"])
    parser.add_argument("--json", type=Path, help="write all measurements here")
    options = parser.parse_args()
    settings = {**SETTINGS, "minibatch": options.minibatch, "epochs": options.epochs}
    sides = {
        "shoal": (sys.executable, "shoal_cartpole.py", {}),
        "sb3, 1 thread": (peer_python("sb3", PEER), "sb3_cartpole.py", {"threads": 1}),
        "sb3, default threads": (peer_python("sb3", PEER), "sb3_cartpole.py", {}),
    }
    results: dict[str, dict[str, list[dict]]] = {name: {"speed": [], "solve": []} for name in sides}
    print(
        f"settings {settings}, {options.repeats} repeats, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}",
        flush=True,
    )
    for repeat in range(options.repeats):
        for name, (python, script, extra) in sides.items():
            run = {**settings, **extra, "seed": repeat + 1}
            results[name]["speed"].append(run_child(python, script, {**run, "steps": options.steps}))
            results[name]["solve"].append(run_child(python, script, {**run, "steps": 400_000, "goal": 475}))
            speed, solve = results[name]["speed"][-1], results[name]["solve"][-1]
            solved = (
                f"solved after {solve['solved_after']:.1f} s"
                if solve["solved_after"]
                else "not solved in 400,000 steps"
            )
            print(f"  repeat {repeat + 1}: {name:22} {slope(speed['points']):8,.0f} steps/s, {solved}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results))
    report(results, options.steps)


def report(results: dict[str, dict[str, list[dict]]], steps: int) -> None:
    """Medians, spreads and the ratios."""
    speeds = {name: [slope(run["points"]) for run in both["speed"]] for name, both in results.items()}
    solves = {
        name: [run["solved_after"] for run in both["solve"] if run["solved_after"]] for name, both in results.items()
    }
    print(f"\n{'':22} {'steps/s':>34} {'CPU s per million steps':>26} {'seconds to solved':>30}")
    for name, both in results.items():
        cpu = statistics.median(run["cpu_seconds"] for run in both["speed"]) / steps * 1e6
        solved = f"{median(solves[name])}, {len(solves[name])} of {len(both['solve'])}" if solves[name] else "never"
        print(f"{name:22} {median(speeds[name]):>34} {cpu:>26.1f} {solved:>30}")
    peers = [name for name in speeds if name != "shoal"]
    best = max(peers, key=lambda name: statistics.median(speeds[name]))
    ratio = statistics.median(speeds["shoal"]) / statistics.median(speeds[best])
    print(f"\nshoal / {best}: {ratio:.2f} x the steps per second")
    fastest = min(
        (name for name in peers if solves[name]), key=lambda name: statistics.median(solves[name]), default=None
    )
    if fastest and solves["shoal"]:
        gain = statistics.median(solves[fastest]) / statistics.median(solves["shoal"])
        print(f"{fastest} / shoal: {gain:.2f} x the seconds from process start to solved")


if __name__ == "__main__":
    main()
