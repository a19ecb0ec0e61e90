"""The comparison of speed that `cartpole_ppo.py`, `cartpole_dqn.py` and `atari_ppo.py` make: sweep, limit, repeats, report."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

from figures import Parts, limit, median, ratio
from harness import Run, Side, best_peer, cores, machine, repeated, run_child, save, swept
from pins import LEFT_OUT

TRAINED = {"autograd": "autograd", "by_hand": "gradients by hand"}
"""How t_train was measured -> the words for it."""

Costs = dict[str, float | None]
"""Seconds of one core per step, by part; None: there is no such part."""


def compare(
    sides: list[Side], settings: dict[str, Any], repeats: int, path: Path | None, *, limited: bool = True
) -> None:
    """Everything, from the header to the ratios. `limited`: the limit is known, as it is of those who do not replay."""
    settings = {**settings, "cores": cores(), "seed": 1}
    header = {"machine": machine(), "settings": settings, "repeats": repeats, "left_out": LEFT_OUT}
    print(", ".join(f"{name} {value}" for name, value in header["machine"].items()))
    print(f"settings {settings}, {repeats} repeats", flush=True)
    kept, sweep = swept(sides, settings)
    before = parts_of(settings) if limited else {}
    results = repeated(kept, settings, repeats)
    parts = least(before, parts_of(settings)) if limited else {}
    limits = limits_of(parts, settings["epochs"]) if limited else {}
    save(path, {**header, "sweep": sweep, "parts": parts, "limits": limits, "results": results})
    report(results, parts, limits)


def parts_of(settings: dict[str, Any]) -> Costs:
    """Of the limit, on this machine now."""
    return run_child(sys.executable, "limit.py", {**settings, "shape": "inline"})


def least(*measured: Costs) -> Costs:
    """Whatever disturbed a measurement only made it longer."""
    return {
        name: min((each[name] for each in measured if each[name] is not None), default=None) for name in measured[0]
    }


def limits_of(parts: Costs, passes: int) -> dict[str, float]:
    """Steps per second at most: of anybody who uses torch, and by hand, where the quicker way to decide counts too."""
    deciding = {"autograd": parts["inference"], "by_hand": min(parts["inference"], parts["decision"])}
    return {
        way: limit(cores(), Parts(parts["env"], deciding[way], parts[way]), passes)
        for way in TRAINED
        if parts[way] is not None
    }


def report(results: dict[str, list[Run]], parts: Costs, limits: dict[str, float]) -> None:
    """Versions, parts of the limit, medians with their spread, shares, ratios."""
    print()
    for name, runs in results.items():
        print(f"{name:34} {runs[0]['version']}")
    said = ", ".join(f"{name} {1e6 * seconds:.2f}" for name, seconds in parts.items() if seconds is not None)
    if said:
        print(f"\nmicroseconds of one core per step (autograd, by_hand: per pass): {said}")
    for way, most in limits.items():
        print(f"limit with {TRAINED[way]}: {most:,.0f} steps/s")
    last = "of the limit" if limits else "rows trained per step"
    print(f"\n{'':34} {'steps/s':>30} {'CPU s/million':>26} {'MB resident':>12} {'in proportion':>14}  {last}")
    for name, runs in results.items():
        rates, cpu = ([run[key] for run in runs] for key in ("rate", "cpu"))
        resident, proportional = (statistics.median(run[key] for run in runs) / 1e6 for key in ("rss", "pss"))
        shares = ", ".join(f"{statistics.median(rates) / most:.1%}" for most in limits.values())
        shares = shares or f"{statistics.median(run['trained'] for run in runs):.2f}"
        print(
            f"{name:34} {median(rates, 0):>30} {median(cpu, 0):>26} {resident:>12,.0f} {proportional:>14,.0f}  {shares}"
        )
    best = best_peer(results)
    for name in results if best else ():
        if name.startswith("shoal"):
            rates = [[run["rate"] for run in results[side]] for side in (name, best)]
            print(f"{name} / {best}: {ratio(*rates):.2f} x the steps per second")
