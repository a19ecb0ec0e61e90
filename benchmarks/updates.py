"""The comparison of learner updates per second that `pong_dqn.py` and `sac_halfcheetah.py` make: sweep, limit, repeats, report."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

from figures import Parts, limit, median, ratio
from harness import Run, Side, cores, machine, repeated, run_child, save, swept
from speed import Costs, least


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


def compare(sides: list[Side], settings: dict[str, Any], repeats: int, path: Path | None, *, limited_by: str) -> None:
    """Everything, from the header to the ratios. `limited_by`: the script of `peers/` that measures the parts of the limit."""
    settings = {**settings, "cores": cores(), "seed": 1}
    header = {"machine": machine(), "settings": settings, "repeats": repeats}
    print(", ".join(f"{name} {value}" for name, value in header["machine"].items()))
    print(f"settings {settings}, {repeats} repeats", flush=True)
    kept, sweep = swept(sides, settings)
    before = run_child(sys.executable, limited_by, settings)
    results = repeated(kept, settings, repeats, said=said)
    parts = least(before, run_child(sys.executable, limited_by, settings))
    most = limit_of(parts, settings)
    save(path, {**header, "sweep": sweep, "parts": parts, "limits": {"autograd": most}, "results": results})
    report(results, parts, most)
