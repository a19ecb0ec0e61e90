"""Does population-based training pay? The recipe `lunarlander-pbt` beside members that copy nobody, at equal cost.

    python benchmarks/lunarlander_pbt.py [--seeds 1 2 3 4 5] [--root runs/lunarlander-pbt] [KEY=VALUE ...]

All members begin with a learning rate that is far too small. The population trains until its best member stops by `stop.return`
or all steps are made; the arm `random` draws its settings anew at every turn, gets as many core-seconds, and no stop by the return,
so that it may use them up. Then the best member of each plays 100 greedy episodes. Runs that are there go on or are used as they
are. Printed is a table in Markdown; exit code 1: the population reaches 200 in fewer than four of five seeds, is not ahead of the
other arm in the median, or swapping takes 2 % of the time in slots or more.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import shoal
from shoal.base.config import load_layers
from shoal.population.folder import PopulationFolder
from shoal.population.start import Options, population
from shoal.population.state import Member
from shoal.recipes import find

BAR, SHARE, SWAPPING, EPISODES = 200.0, 0.8, 0.02, 100


@dataclass(frozen=True)
class Arm:
    """One population that has ended."""

    best: str
    score: float
    """Of greedy play, on seeds that nobody has trained or been compared on."""
    steps: int
    core_seconds: float
    swapping: float
    """Of the time in slots."""


def made(root: Path, name: str, seed: int, words: list[str]) -> Arm:
    """Train it to its end, if it has not ended before."""
    folder = root / name
    overrides = [f"seed={seed}", f"name={name}", *words]
    begun = PopulationFolder(folder).exists
    if not begun or (PopulationFolder(folder).state().reason or "interrupted").startswith("interrupted"):
        values: dict[str, Any] = load_layers(find("lunarlander-pbt"), overrides)
        if population(values, overrides, Options(name, root=root, resume=begun, quiet=True)).interrupted:
            sys.exit("interrupted: the same command goes on")
    members = list(PopulationFolder(folder).state().members.values())
    best = max((m for m in members if m.score is not None), key=_score)
    scores, _ = shoal.evaluate(str(folder / best.name), episodes=EPISODES, seed=seed + 10_000)
    swapped, slots = sum(m.swap_seconds for m in members), sum(m.slot_seconds for m in members)
    steps, cost = sum(m.steps for m in members), sum(m.core_seconds for m in members)
    found = Arm(best.name, scores.mean, steps, cost, swapped / slots)
    print(f"{name}: {found}", file=sys.stderr, flush=True)
    return found


def _score(member: Member) -> float:
    assert member.score is not None
    return member.score.mean


def main() -> None:
    """Train what is missing, print the table, say whether the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--root", type=Path, default=Path("runs/lunarlander-pbt"))
    options = parser.parse_args()
    print("| seed | population | random | core-seconds | steps of all members | swapping |\n|---|---|---|---|---|---|")
    arms: list[tuple[Arm, Arm]] = []
    for seed in options.seeds:
        ours = made(options.root, f"copies-{seed}", seed, options.overrides)
        cost = f"population.budget.core_seconds={ours.core_seconds:.0f}"
        alone = ["population.exploit=none", "population.explore=resample", cost]
        unbounded = ["stop.steps=100_000_000", "stop.return=null"]
        other = made(options.root, f"random-{seed}", seed, [*options.overrides, *alone, *unbounded])
        arms.append((ours, other))
        cost = f"{ours.core_seconds:.0f}, {other.core_seconds:.0f} | {ours.steps:,}, {other.steps:,}"
        print(f"| {seed} | {ours.score:.1f} | {other.score:.1f} | {cost} | {ours.swapping:.2%} |", flush=True)
    reached = sum(ours.score >= BAR for ours, _ in arms) / len(arms)
    medians = [statistics.median(arm.score for arm in each) for each in zip(*arms, strict=True)]
    swapping = max(ours.swapping for ours, _ in arms)
    print(f"\n{reached:.0%} of seeds at {BAR:g} or above; medians {medians[0]:.1f} and {medians[1]:.1f}")
    if reached < SHARE or medians[0] <= medians[1] or swapping >= SWAPPING:
        sys.exit(1)


if __name__ == "__main__":
    main()
