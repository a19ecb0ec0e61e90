"""LunarLander-v3 by one child on one core, and by two children on one core each: wall time until greedy play earns 200.

    python benchmarks/federation_lunarlander.py            # 5 seeds, half an hour or more on two quiet cores

Parent and children are processes as people start them, over TLS on loopback, each pinned by taskset: the children to cores 0 and 1,
the parent to core 0, where one child has to share it as well. Time counts from the moment the first child has joined to the end of
100 greedy episodes, on fresh seeds, with a mean of 200. Needs two cores that nobody else uses.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from shoal.base.errors import EXIT_INTERRUPTED
from shoal.recipes import find
from tests.federation.ends import End, Federation

NAMES = ("anna", "bert")


@dataclass(frozen=True)
class Timing:
    """How one federation fared."""

    reached: bool
    seconds: float
    steps: int
    score: float | None
    """Greedy mean of the 100 episodes that ended it, or of the best evaluation."""


def pinned(core: int) -> Any:
    """What makes a command keep to that core."""
    return lambda argv: ["taskset", "--cpu-list", str(core), *argv]


def moment(event: dict[str, Any]) -> float:
    return datetime.datetime.fromisoformat(event["time"]).timestamp()


def timing(parent: End) -> Timing:
    """Out of the events of a parent's run."""
    events, (joined, *_) = parent.lines("events.jsonl"), parent.said("joined from")
    (stopped,) = [event for event in events if event["kind"] == "stop"]
    evaluations = [event for event in events if event["kind"] == "evaluation"]
    scores = [(event["confirmation"] or event)["mean_reward"] for event in evaluations]
    reached = stopped["reason"].startswith("stop.return")
    score = scores[-1] if reached else max(scores, default=None)
    return Timing(reached, moment(stopped) - moment(joined), stopped["steps"], score)


def run(seed: int, children: int, args: argparse.Namespace) -> Timing:
    """One federation, from an empty folder to the bar."""
    place = Path(tempfile.mkdtemp(prefix="federation"))
    recipe = find("lunarlander-a4c").read_text().replace("return: 200", f"return: {args.bar:g}") + "name: toy\n"
    made = Federation(place, *NAMES[:children], recipe=recipe)
    settings = [f"seed={seed}", f"stop.steps={args.steps}", *args.set, *(args.single if children == 1 else [])]
    try:
        parent = made.parent(*settings, wrap=pinned(0))
        for core, name in enumerate(NAMES[:children]):
            made.child(name, *settings, wrap=pinned(core))
        try:
            code = parent.ends(args.patience)
        except subprocess.TimeoutExpired:
            parent.process.send_signal(signal.SIGINT)
            code = parent.ends() - EXIT_INTERRUPTED
        if code or not parent.said("joined from"):
            raise RuntimeError(parent.why())
        return timing(parent)
    finally:
        made.close()
        shutil.rmtree(place)


def cell(found: Timing) -> str:
    score = "never evaluated" if found.score is None else f"{found.score:.0f}"
    return f"{found.seconds:.0f} s, {found.steps:,} steps, {score}" + ("" if found.reached else ", not reached")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first", type=int, default=1, help="of the seeds: to measure them in pieces")
    parser.add_argument("--only", type=int, choices=[1, 2], help="children: to measure it in pieces")
    parser.add_argument("--bar", type=float, default=200.0)
    parser.add_argument("--steps", type=int, default=2_000_000, help="of all children, after which one is given up")
    parser.add_argument("--patience", type=float, default=1800.0, help="seconds, the same")
    parser.add_argument("--set", nargs="*", default=[], help="KEY=VALUE of the recipe, at both ends")
    parser.add_argument(
        "--single",
        nargs="*",
        default=["federation.mixing.lr=1"],
        help="the same, of one child: by default it is local training",
    )
    args = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}: `{' '.join(['python', *sys.argv])}`\n")
    print("| seed | one child | two children |\n|---|---|---|", flush=True)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for seed in range(args.first, args.first + args.seeds):
        cells = []
        for children in (1, 2) if seed % 2 else (2, 1):  # neither is always the first
            if args.only not in (None, children):
                continue
            found = run(seed, children, args)
            seconds[children].append(found.seconds if found.reached else float("inf"))
            cells.append((children, cell(found)))
        print(f"| {seed} | " + " | ".join(words for _, words in sorted(cells)) + " |", flush=True)
    if args.only is not None:
        return
    one, two = (statistics.median(seconds[children]) for children in (1, 2))
    print(f"| median | {one:.0f} s | {two:.0f} s |")
    sys.exit(0 if two < one else 1)


if __name__ == "__main__":
    main()
