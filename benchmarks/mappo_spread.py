"""Shared PPO on simple_spread_v3, all cores: Shoal, RLlib and BenchMARL over the very same mpe2 object, same work, same run.

Same copies, unroll, minibatch, passes and networks (2 x 64 tanh, separate actor and critic); nobody learns from experience
older than its newest version. Runs are interleaved and repeated. Prints agent-steps/s after warm-up; the share of the
object's own limit, which is stepping it at random on every core at once; and Shoal's recipe `spread` (MAPPO in its native
environment) beside RLlib. Ratios are medians over repeats of two figures taken one after the other. A peer that does not install
or run is left out, and why is said.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from figures import median, ratio, slope
from harness import ChildError, peer_python, run_child

SETTINGS = {"num_envs": 64, "unroll": 25, "minibatch": 480, "epochs": 4, "lr": 1e-3}
SCRIPTS = {"rllib": "rllib_spread.py", "benchmarl": "benchmarl_spread.py"}
LIMIT, OURS, NATIVE = "mpe2 at random (the limit)", "shoal, mpe2", "shoal, native world"
SHARE_BAR, RATIO_BAR = 0.7, 100

Side = tuple[str, str, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12.0, help="of each window")
    parser.add_argument("--peers", nargs="*", choices=SCRIPTS, default=list(SCRIPTS))
    parser.add_argument("--json", type=Path, help="write all measurements here")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    settings = {**SETTINGS, "seconds": options.seconds, "cores": cores}
    sides = sides_of(cores, options.peers)
    print(f"settings {settings}, {options.repeats} repeats, load {os.getloadavg()[0]:.2f}", flush=True)
    results = measure(sides, settings, options.repeats)
    if options.json:
        options.json.write_text(json.dumps(results))
    report(results)


def sides_of(cores: int, peers: list[str]) -> dict[str, Side]:
    """Name -> interpreter, script and settings of its own; RLlib in both of its shapes."""
    sides: dict[str, Side] = {
        LIMIT: (sys.executable, "mpe2_limit.py", {}),
        OURS: (sys.executable, "shoal_spread.py", {"native": False}),
    }
    for name in peers:
        script = SCRIPTS[name]
        try:
            python = peer_python(name)
        except subprocess.CalledProcessError as error:
            print(f"{name} does not install: {(error.stderr or str(error)).strip().splitlines()[-1]}", flush=True)
            continue
        if name == "rllib":
            sides[f"rllib, {cores} env runners"] = (python, script, {"runners": cores})
            sides["rllib, one process"] = (python, script, {"runners": 0})
        else:
            sides[name] = (python, script, {})
    sides[NATIVE] = (sys.executable, "shoal_spread.py", {"native": True})
    return sides


def measure(sides: dict[str, Side], settings: dict[str, Any], repeats: int) -> dict[str, list[dict[str, Any]]]:
    """In turns. A side that fails is not asked again, and its figures are dropped."""
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for repeat in range(repeats):
        for name in list(results):
            python, script, extra = sides[name]
            try:
                run = run_child(python, script, {**settings, **extra, "seed": repeat + 1})
            except ChildError as error:
                if name in (LIMIT, OURS, NATIVE):
                    raise
                print(f"  {name} left out: {error}", flush=True)
                del results[name]
                continue
            run["rate"] = run.get("rate") or slope(run["points"])
            results[name].append(run)
            print(f"  repeat {repeat + 1}: {name:28} {run['rate']:10,.0f} agent-steps/s", flush=True)
    return results


def report(results: dict[str, list[dict[str, Any]]]) -> None:
    """Medians, spreads, and the ratios beside their bars."""
    rates = {name: [run["rate"] for run in runs] for name, runs in results.items()}
    print(f"\n{'':28} {'agent-steps/s':>34} {'of the limit':>14}")
    for name, own in rates.items():
        print(f"{name:28} {median(own, 0):>34} {ratio(own, rates[LIMIT]):>14.1%}")
    print(f"\nshoal on mpe2 / the limit: {ratio(rates[OURS], rates[LIMIT]):.1%} (bar: {SHARE_BAR:.0%})")
    for name in (each for each in rates if each not in (LIMIT, OURS, NATIVE)):
        print(f"shoal on mpe2 / {name}: {ratio(rates[OURS], rates[name]):.1f} x")
    if runs := [name for name in rates if name.startswith("rllib")]:
        best = max(runs, key=lambda name: statistics.median(rates[name]))
        print(f"shoal in its native world / {best}: {ratio(rates[NATIVE], rates[best]):.0f} x (bar: {RATIO_BAR} x)")


if __name__ == "__main__":
    main()
