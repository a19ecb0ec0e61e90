"""Prioritised replay of a million transitions: Shoal's buffer and those of its peers, same work, same machine, in turns.

Two figures: transitions added per second while the buffer fills, one step of all copies at a time; then, of the full buffer,
rounds per second that draw a batch with its weights and give every transition of it a new priority. Seconds are of CPU time:
every side works in one thread.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from figures import median, ratio
from harness import Run, Side, all_sides, machine, repeated, run_child, save

FIGURES = {"adds": "transitions added/s", "rounds": "rounds/s"}


def sides_of(peers: list[str]) -> list[Side]:
    """One setting of each: there is nothing to tune."""
    words = {"tianshou": "numba", "torchrl": "C++"}
    sweeps = {peer: (f"{peer}_replay.py", {how: {}}) for peer, how in words.items()}
    return all_sides("shoal_replay.py", {"numpy": {}}, peers, sweeps)


def measured(side: Side, settings: dict[str, Any]) -> Run:
    """One run of a side."""
    load = os.getloadavg()[0]
    return {**run_child(side.python, side.script, {**settings, **side.settings}), "load": load}


def said(run: Run) -> str:
    """Both figures."""
    return ", ".join(f"{run[key]:,.0f} {words}" for key, words in FIGURES.items())


def report(results: dict[str, list[Run]]) -> None:
    """Versions, medians with their spread, ratios."""
    for name, runs in results.items():
        figures = ", ".join(f"{median([run[key] for run in runs], 0)} {words}" for key, words in FIGURES.items())
        print(f"{name:18} {figures}   [{runs[0]['version']}]")
    own, *peers = results
    for peer in peers:
        ratios = {key: ratio(*([run[key] for run in results[name]] for name in (own, peer))) for key in FIGURES}
        print(f"{own} / {peer}: {ratios['adds']:.2f} x the adds, {ratios['rounds']:.2f} x the rounds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of rounds, beside the filling")
    parser.add_argument("--capacity", type=int, default=1_000_000, help="transitions")
    parser.add_argument("--copies", type=int, default=64, help="transitions that come at once")
    parser.add_argument("--batch", type=int, default=512, help="transitions of one draw")
    parser.add_argument("--peers", nargs="*", default=["tianshou", "torchrl"])
    parser.add_argument("--json", type=Path, help="write all measurements here")
    options = parser.parse_args()
    settings = {name: getattr(options, name) for name in ("capacity", "copies", "batch", "seconds")}
    header = {"machine": machine(), "settings": settings, "repeats": options.repeats}
    print(", ".join(f"{name} {value}" for name, value in header["machine"].items()))
    print(f"settings {settings}, {options.repeats} repeats", flush=True)
    results = repeated(sides_of(options.peers), settings, options.repeats, measured, said)
    save(options.json, {**header, "results": results})
    report(results)


if __name__ == "__main__":
    main()
