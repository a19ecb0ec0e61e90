"""`cartpole-a4c` by two children behind slow cables, 1 Mbit/s and 100 ms there and back: scores against bytes and against time.

    python benchmarks/federation_link.py [--figure docs/images/federation-link.svg] [--only fp32 int8]

Parent and children are machines of their own (network namespaces; needs root), as `tests/cluster/hosts.py` makes them. Every
encoding trains until 100 greedy episodes confirm the bar, or its time is over. Time counts from the first child that has joined,
bytes are those of weights, both ways, as the parent counts them. A row of the table says when greedy play first earned the bar;
the figure has the score of every evaluation.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "cluster"))

from apart import Apart

from shoal.recipes import find

ENCODINGS = ("fp32", "fp16", "int8", "top_k")
NAMES = ("anna", "bert")


@dataclass(frozen=True)
class Curve:
    """The evaluations of one parent: seconds, bytes and greedy score of each."""

    seconds: list[float]
    nbytes: list[float]
    scores: list[float]
    reached: bool
    steps: int
    version: int

    @classmethod
    def of(cls, rows: list[dict[str, float]], joined: float, began: float, *, reached: bool) -> Curve:
        """`joined`, `began`: when the first child came, and from when on rows count their seconds."""
        totals = accumulate(row.get("federation/nbytes_up", 0) + row.get("federation/nbytes_down", 0) for row in rows)
        found = [(row, total) for row, total in zip(rows, totals, strict=True) if "eval/mean_reward" in row]
        seconds = [max(0.0, began + row["time/elapsed"] - joined) for row, _ in found]
        scores = [row["eval/mean_reward"] for row, _ in found]
        return cls(
            seconds, [total for _, total in found], scores, reached, int(rows[-1]["step"]), int(rows[-1]["update"])
        )


def moment(event: dict[str, str]) -> float:
    return datetime.datetime.fromisoformat(event["time"]).timestamp()


def trained(encoding: str, args: argparse.Namespace) -> Curve:
    """One federation, from an empty folder to the bar."""
    place = Path(tempfile.mkdtemp(prefix="federation"))
    recipe = find("cartpole-a4c").read_text() + "name: toy\n"
    apart = Apart(place, *NAMES, recipe=recipe, bits=args.bits, delay=args.trip / 2)
    settings = [f"federation.every={args.every}", f"federation.encoding={encoding}", f"seed={args.seed}"]
    try:
        parent = apart.start("parent", *settings, f"evaluation.every={args.evaluation}", "evaluation.episodes=20")
        for name in NAMES:
            apart.start(name, *settings)
        try:
            if parent.ends(args.patience):
                raise RuntimeError(parent.why())
        except subprocess.TimeoutExpired:
            parent.kill()
        events, rows = parent.lines("events.jsonl"), parent.lines("metrics.jsonl")
        joined = moment(parent.said("joined from")[0])
        began = moment(next(event for event in events if event["kind"] == "start"))
        reached = any(event["kind"] == "stop" and event["reason"].startswith("stop.return") for event in events)
        return Curve.of(rows, joined, began, reached=reached)
    finally:
        apart.close()
        shutil.rmtree(place)


def draw(curves: dict[str, Curve], path: Path, bar: float) -> None:
    """Both pictures, side by side."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for name, curve in curves.items():
        left.plot([each / 1e6 for each in curve.nbytes], curve.scores, label=name)
        right.plot(curve.seconds, curve.scores, label=name)
    left.set(xlabel="megabytes of weights, both ways", ylabel="greedy return", xscale="log")
    right.set(xlabel="seconds since the first child joined")
    for axes in (left, right):
        axes.axhline(bar, color="0.6", linestyle="--", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=ENCODINGS, default=[*ENCODINGS])
    parser.add_argument("--bits", type=float, default=1e6, help="per second, of each child's cable")
    parser.add_argument("--trip", type=float, default=0.1, help="seconds there and back")
    parser.add_argument("--every", default="20 updates")
    parser.add_argument("--evaluation", default="2s")
    parser.add_argument("--bar", type=float, default=475.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=240.0, help="seconds of one encoding")
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}: `{' '.join(['python', *sys.argv])}`\n")
    print(
        "| encoding | reached | seconds | bytes | of fp32, per version | versions | steps |\n|---" + "|---" * 6 + "|",
        flush=True,
    )
    curves: dict[str, Curve] = {}
    for encoding in args.only:
        curve = curves[encoding] = trained(encoding, args)
        share = "" if "fp32" not in curves else f"{_per_version(curve) / _per_version(curves['fp32']):.1%}"
        found = "yes" if curve.reached else f"no, best {max(curve.scores, default=float('nan')):.0f}"
        numbers = f"{curve.seconds[-1]:.0f} | {curve.nbytes[-1]:,.0f} | {share} | {curve.version} | {curve.steps:,}"
        print(f"| {encoding} | {found} | {numbers} |", flush=True)
    if args.figure:
        draw(curves, args.figure, args.bar)


def _per_version(curve: Curve) -> float:
    return curve.nbytes[-1] / curve.version


if __name__ == "__main__":
    main()
