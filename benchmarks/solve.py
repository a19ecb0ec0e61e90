"""Open class: seconds from the start of the process to its end, with a policy that is known to earn 475 on gymnasium's CartPole-v1.

Everybody chooses settings freely. Training goes on until the mean of the last 20 training episodes is 475 and 100 greedy
episodes of the policy confirm it; that verification counts, and so do imports and the end of the process. Ours is
`shoal train cartpole` as anybody would run it. Each peer first runs all settings of its sweep once, on a seed of its own, and
the quickest goes on; then all run in turns over the seeds. Sample Factory is not here: it learns and plays in different programs.
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

from figures import median
from harness import HERE, ChildError, Run, Side, machine, metered, peer_sides, save

GOAL = 475.0
SHOAL = "shoal train cartpole"
SWEEP_SEED = 1000

ZOO = {"num_envs": 8, "unroll": 32, "minibatch": 256, "epochs": 20, "lr": 1e-3, "gamma": 0.98, "threads": 1}
"""As the public zoo of stable-baselines3 tuned it for CartPole."""
LARGE = {"num_envs": 16, "unroll": 128, "minibatch": 256, "epochs": 4, "lr": 2e-3, "gamma": 0.98, "threads": 1}
"""Large batches."""
WIDER = {**LARGE, "num_envs": 32, "unroll": 64, "lr": 4e-3}
"""As Shoal's recipe has it."""
SB3 = {
    "zoo, falling rate": {**ZOO, "gae_lambda": 0.8, "falling": True, "steps": 100_000},
    "zoo, constant rate": {**ZOO, "gae_lambda": 0.8},
    "16 x 128": {**LARGE, "gae_lambda": 0.9},
    "32 x 64": {**WIDER, "gae_lambda": 0.9},
}
UNCLIPPED = {"vf_clip_param": 1e4}
"""RLlib's own bound on the value loss is for returns of about 10."""
RLLIB = {
    "zoo": {**ZOO, **UNCLIPPED, "lambda_": 0.8, "runners": 0},
    "16 x 128": {**LARGE, **UNCLIPPED, "lambda_": 0.9, "runners": 0},
    "16 x 128, 2 env runners": {**LARGE, **UNCLIPPED, "lambda_": 0.9, "runners": 2},
}


def run_shoal(seed: int) -> Run:
    """As a user does; its own confirmation is the verification. What follows the clock is a second opinion."""
    command = str(Path(sys.executable).with_name("shoal"))
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        metered([command, "train", "cartpole", "--seed", str(seed), "--trial", "timed"], cwd=folder)
        seconds = time.perf_counter() - began
        run = Path(folder) / "runs" / "cartpole" / "timed"
        stop = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()][-1]
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        means = [row["eval/mean_reward"] for row in rows if "eval/mean_reward" in row]
        solved = stop["reason"].startswith("stop.return") and means and means[-1] >= GOAL
        ask = [command, "evaluate", str(run), "env.vector=loop", "--episodes", "100", "--json"]
        again = json.loads(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)["mean_return"]
    return {"seconds": seconds, "verified": means[-1] if solved else None, "steps": stop["steps"], "again": again}


def run_peer(side: Side, seed: int, longest: float) -> Run:
    """A process that trains, verifies and ends."""
    settings = {"world": "cartpole", "seconds": longest, "goal": GOAL, **side.settings, "seed": seed}
    began = time.perf_counter()
    done, _ = metered([side.python, str(HERE / "peers" / side.script), json.dumps(settings)], 2 * longest + 60)
    seconds = time.perf_counter() - began
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return {"seconds": seconds, **{name: said[name] for name in ("verified", "steps", "version")}}


def quickest(sides: list[Side], longest: float) -> tuple[Side | None, dict[str, Run]]:
    """Of one peer's sweep."""
    runs: dict[str, Run] = {}
    for side in sides:
        try:
            runs[side.name] = run_peer(side, SWEEP_SEED, longest)
        except ChildError as error:
            print(f"  {side.name} left out: {error}", flush=True)
            continue
        say("sweep", side.name, runs[side.name])
    solved = [side for side in sides if side.name in runs and runs[side.name]["verified"]]
    return min(solved, key=lambda side: runs[side.name]["seconds"], default=None), runs


def say(when: str, name: str, run: Run) -> None:
    verified = f"verified {run['verified']:.1f}" if run["verified"] else "not solved"
    print(f"  {when}: {name:34} {run['seconds']:6.1f} s, {run['steps']:9,} steps, {verified}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--longest", type=float, default=120.0, help="seconds of training after which a peer gives up")
    parser.add_argument("--peers", nargs="*", default=["sb3", "rllib"])
    parser.add_argument("--json", type=Path, help="write all measurements here")
    options = parser.parse_args()
    header = {"machine": machine(), "goal": GOAL, "seeds": options.seeds}
    print(", ".join(f"{name} {value}" for name, value in header["machine"].items()), flush=True)
    kept, sweep = [], {}
    for peer, script, settings in (("sb3", "sb3_ppo.py", SB3), ("rllib", "rllib_ppo.py", RLLIB)):
        if peer in options.peers:
            best, runs = quickest(peer_sides(peer, script, settings), options.longest)
            kept, sweep = [*kept, *([best] if best else [])], {**sweep, **runs}
    results = race(kept, options.seeds, options.longest)
    save(options.json, {**header, "sweep": sweep, "results": results})
    report(results)


def race(peers: list[Side], seeds: int, longest: float) -> dict[str, list[Run]]:
    """All seeds, in turns. A peer that fails is not asked again, and its figures are dropped."""
    results: dict[str, list[Run]] = {name: [] for name in (SHOAL, *(side.name for side in peers))}
    for seed in range(1, seeds + 1):
        results[SHOAL].append(run_shoal(seed))
        say(f"seed {seed}", SHOAL, results[SHOAL][-1])
        for side in (side for side in peers if side.name in results):
            try:
                results[side.name].append(run_peer(side, seed, longest))
            except ChildError as error:
                print(f"  {side.name} left out: {error}", flush=True)
                del results[side.name]
                continue
            say(f"seed {seed}", side.name, results[side.name][-1])
    return results


def report(results: dict[str, list[Run]]) -> None:
    """Medians, spreads, ratios. Who did not solve it has the seconds after which it gave up."""
    print(f"\n{'':34} {'seconds to the end':>24} {'solved':>8} {'steps':>10}")
    for name, runs in results.items():
        solved = sum(run["verified"] is not None for run in runs)
        steps = statistics.median(run["steps"] for run in runs)
        print(f"{name:34} {median(_seconds(runs)):>24} {solved:>5} of {len(runs)} {steps:>7,.0f}")
    again = [run["again"] for run in results[SHOAL]]
    print(f"\nthe same policies of Shoal's in 100 more greedy episodes of single environments: {median(again)}")
    for name in (name for name in results if name != SHOAL):
        gain = statistics.median(_seconds(results[name])) / statistics.median(_seconds(results[SHOAL]))
        print(f"{name} / {SHOAL}: {gain:.2f} x the seconds")


def _seconds(runs: list[dict[str, Any]]) -> list[float]:
    return [run["seconds"] for run in runs]


if __name__ == "__main__":
    main()
