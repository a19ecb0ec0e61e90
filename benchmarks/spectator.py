"""What it costs training that somebody watches: steps per second with a spectator and without, in turns, in one run."""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dashboard import cpu

from shoal.base.errors import ShoalError
from shoal.monitoring.run_folder import RunFolder
from shoal.runs.panel import ask

RENEW, OVER = 2.0, 8.0
"""Seconds between two leases, and until the spectator is gone when nobody renews its own."""


def stretch(folder: RunFolder, seconds: float, *, watched: bool) -> tuple[float, float]:
    """Steps per second, and seconds of the spectator's CPU per second."""
    before, began = ask(folder, "status")["step"], time.monotonic()
    spent = _spent(folder)
    while (left := began + seconds - time.monotonic()) > 0:
        if watched:
            ask(folder, "watch")
        time.sleep(min(RENEW, left))
    took = time.monotonic() - began
    return (ask(folder, "status")["step"] - before) / took, (_spent(folder) - spent) / took


def _spent(folder: RunFolder) -> float:
    found = subprocess.run(["pgrep", "-f", f"shoal.runs.spectator {folder.path}"], capture_output=True, text=True)
    return sum(cpu(int(pid)) for pid in found.stdout.split())


def measure(recipe: str, words: list[str], pairs: int, seconds: float) -> dict[str, float]:
    """Pairs of stretches, so that what changes slowly cancels out."""
    with tempfile.TemporaryDirectory() as place:
        argv = [
            sys.executable,
            "-m",
            "shoal.cli",
            "train",
            recipe,
            "--trial",
            "t",
            "stop.return=null",
            "stop.steps=null",
        ]
        run = subprocess.Popen([*argv, *words], cwd=place, stdout=subprocess.DEVNULL)
        try:
            folder = RunFolder(Path(place).resolve() / "runs" / recipe / "t")
            _until_it_lives(folder)
            time.sleep(5)
            ratios, costs = [], []
            for _ in range(pairs):
                alone, _ = stretch(folder, seconds, watched=False)
                while not (folder.path / "watch" / "frame.jpg").exists():  # its start is no part of it
                    ask(folder, "watch")
                    time.sleep(0.5)
                watched, cost = stretch(folder, seconds, watched=True)
                ratios.append(watched / alone)
                costs.append(cost)
                time.sleep(OVER)
        finally:
            run.send_signal(signal.SIGINT)
            run.wait(30)
    return {
        "watched / alone": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "cores": statistics.mean(costs),
    }


def _until_it_lives(folder: RunFolder) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if ask(folder, "status")["update"] > 2:
                return
        except ShoalError:
            time.sleep(0.2)
    raise SystemExit("the run does not begin")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", nargs="?", default="cartpole")
    parser.add_argument("words", nargs="*", default=["placement.actors=1"])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[1]))
    found = measure(options.recipe, options.words, options.pairs, options.seconds)
    print(f"{options.recipe}:", ", ".join(f"{name} {number:.3f}" for name, number in found.items()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
