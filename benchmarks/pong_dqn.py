"""DQN on Pong with the network of Mnih et al. (2015): learner updates per second of Shoal and its peers, same work, same run.

Same copies, steps between updates, updates of as many rows, uniform replay of the same capacity and target interval, neither
double nor dueling. Frames are 84 x 84 in grey, 4 stacked, every fourth of them seen; Shoal steps ale-py's own batch, the peers
their own wrappers of single games. Each peer first runs all settings of its sweep once, and the fastest goes on; then all run in
turns. All figures are of the time in which they learn: the slope behind the first fifth of the updates. The limit is that of
cores which do nothing but step, decide and update, by plain torch (`peers/dqn_limit.py`).
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
from pathlib import Path
from typing import Any

from figures import Parts, limit, median, ratio
from harness import Run, Side, all_sides, cores, machine, repeated, run_child, save, swept
from speed import Costs, least

OURS = {
    "inline": {"shape": "inline"},
    "inline, single transitions": {"shape": "inline", "single": True},
    "acting beside learning": {"shape": "beside"},
    "all cores in step": {"shape": "local"},
    "all cores in step, single transitions": {"shape": "local", "single": True},
}
SB3 = {
    "1 thread": {"threads": 1},
    "default threads": {},
}
RLLIB = {
    "one process": {"runners": 0},
    "1 env runner": {"runners": 1},
    "1 env runner, 1 thread": {"runners": 1, "threads": 1},
}


def sides_of(peers: list[str]) -> list[Side]:
    """All settings of everybody."""
    return all_sides("shoal_dqn.py", OURS, peers, {"sb3": ("sb3_dqn.py", SB3), "rllib": ("rllib_dqn.py", RLLIB)})


def parts_of(settings: dict[str, Any]) -> Costs:
    """Of the limit, on this machine now."""
    return run_child(sys.executable, "dqn_limit.py", settings)


def limit_of(parts: Costs, settings: dict[str, Any]) -> float:
    """Updates per second at most: each has its share of the steps between two rounds beside it."""
    steps = settings["num_envs"] * settings["unroll"] / settings["updates"]
    costs = {name: cost or 0.0 for name, cost in parts.items()}
    return limit(settings["cores"], Parts(costs["env"], costs["inference"], costs["update"] / steps), 1) / steps


def said(run: Run) -> str:
    """Both figures."""
    return f"{run['updates']:8.1f} updates/s, {run['rate']:8.1f} steps/s"


def report(results: dict[str, list[Run]], parts: Costs, most: float) -> None:
    """Versions, parts of the limit, medians with their spread, shares, ratios."""
    print()
    for name, runs in results.items():
        print(f"{name:44} {runs[0]['version']}")
    costs = ", ".join(f"{name} {1e3 * cost:.2f}" for name, cost in parts.items() if cost is not None)
    print(f"\nmilliseconds of one core (env, inference: per step): {costs}\nlimit: {most:,.1f} updates/s")
    heads = f"{'updates/s':>24} {'steps/s':>28} {'MB in proportion':>17} {'rows per step':>14}"
    print(f"\n{'':44} {heads}  of the limit")
    for name, runs in results.items():
        updates, rates = ([run[key] for run in runs] for key in ("updates", "rate"))
        memory, trained = (statistics.median(run[key] for run in runs) for key in ("pss", "trained"))
        share = statistics.median(updates) / most
        figures = f"{median(updates):>24} {median(rates):>28} {memory / 1e6:>17,.0f} {trained:>14.1f}"
        print(f"{name:44} {figures}  {share:.1%}")
    for own in (name for name in results if name.startswith("shoal")):
        for peer in (name for name in results if not name.startswith("shoal")):
            rates = [[run["updates"] for run in results[side]] for side in (own, peer)]
            print(f"{own} / {peer}: {ratio(*rates):.2f} x the updates per second")


def compare(sides: list[Side], settings: dict[str, Any], repeats: int, path: Path | None) -> None:
    """Everything, from the header to the ratios."""
    header = {"machine": machine(), "settings": settings, "repeats": repeats}
    print(", ".join(f"{name} {value}" for name, value in header["machine"].items()))
    print(f"settings {settings}, {repeats} repeats", flush=True)
    kept, sweep = swept(sides, settings)
    before = parts_of(settings)
    results = repeated(kept, settings, repeats, said=said)
    parts = least(before, parts_of(settings))
    most = limit_of(parts, settings)
    save(path, {**header, "sweep": sweep, "parts": parts, "limits": {"autograd": most}, "results": results})
    report(results, parts, most)


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
    parser.add_argument("--json", type=Path, help="write all measurements here")
    options = parser.parse_args()
    if importlib.util.find_spec("ale_py") is None:
        print("no Atari here: pip install ale-py==0.12.1")
        return
    taken = ("unroll", "updates", "batch", "target_every", "capacity", "warmup", "seconds")
    settings = {"world": "pong", "num_envs": options.copies, **{name: getattr(options, name) for name in taken}}
    compare(
        sides_of(options.peers), {**settings, "lr": 1e-4, "cores": cores(), "seed": 1}, options.repeats, options.json
    )


if __name__ == "__main__":
    main()
