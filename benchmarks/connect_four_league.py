"""How well the recipe `connect-four-league` plays, after however long a training, on any seeds.

    python benchmarks/connect_four_league.py [--seeds 1] [--on local] [--games 400] [--root runs] [KEY=VALUE ...]

Trains it, and the five agents of the recipe `connect-four` that it has to beat; a run that is there goes on, or is used as it is
where it is finished, so a long training may be broken off and taken up. Each player then meets each of them and one that looks four
moves ahead in `--games` games, half from either side, after `--openings` random moves. Printed is a table in Markdown; exit code 1:
a bar is missed. KEY=VALUE changes settings of the league's run alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import shoal
from shoal.api.experiment import load_experiment
from shoal.recipes import find

AHEAD = "shoal.testing.alpha_beta:connect_four"
RIVALS = (1, 2, 3, 4, 5)
BARS = {"agents of `connect-four`": 0.65, "four moves ahead": 0.5}
"""Shares of all games that are to be won."""


def trained(root: Path, recipe: str, seed: int, on: str, overrides: list[str]) -> Path:
    """The folder of a run that is finished now."""
    trial, began = f"s{seed}", time.perf_counter()
    if (root / recipe / trial).exists():
        outcome = shoal.resume(recipe, trial, overrides=overrides, root=root, on=on, quiet=True)
    else:
        wanted = load_experiment(find(recipe), [f"seed={seed}", *overrides])
        outcome = shoal.train(wanted, root=root, trial=trial, on=on, quiet=True)
    seconds = time.perf_counter() - began
    print(
        f"{recipe}/{trial}: {outcome.steps:,} steps, {seconds:.0f} s now; {outcome.reason}", file=sys.stderr, flush=True
    )
    return outcome.folder


def measure(main: Path, rivals: list[Path], games: int, openings: int) -> dict[str, tuple[int, int, int]]:
    """Wins, draws and losses against the rivals together, and against the one that looks ahead."""
    met = [*map(str, rivals), AHEAD]
    empty = ["env.kwargs.openings=0"]  # these random moves are the evaluation's own
    scores, _ = shoal.evaluate(str(main), overrides=empty, episodes=games, against=met, openings=openings)
    counts = [(tally.wins, tally.draws, tally.losses) for tally in scores.tallies.values()]
    for name, (wins, draws, losses) in zip(met, counts, strict=True):
        print(f"{main.name} against {name}: {wins} won, {draws} drawn, {losses} lost", file=sys.stderr, flush=True)
    wins, draws, losses = (sum(each) for each in zip(*counts[:-1], strict=True))
    return dict(zip(BARS, [(wins, draws, losses), counts[-1]], strict=True))


def main() -> None:
    """Train what is missing, let them play, print, and say whether the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--rivals", nargs="+", type=int, default=list(RIVALS), help="seeds of the recipe connect-four")
    parser.add_argument("--games", type=int, default=400)
    parser.add_argument("--openings", type=int, default=4)
    parser.add_argument("--on", choices=("inline", "local"), default="local")
    parser.add_argument("--root", type=Path, default=Path("runs"))
    options = parser.parse_args()
    mains = [
        trained(options.root, "connect-four-league", each, options.on, options.overrides) for each in options.seeds
    ]
    rivals = [trained(options.root, "connect-four", each, options.on, []) for each in options.rivals]
    missed = False
    print("| seed | against | bar | won | drawn | lost |\n|---|---|---|---|---|---|")
    for seed, player in zip(options.seeds, mains, strict=True):
        for name, (wins, draws, losses) in measure(player, rivals, options.games, options.openings).items():
            games = wins + draws + losses
            missed |= wins < BARS[name] * games
            shares = " | ".join(f"{100 * each / games:.1f} %" for each in (wins, draws, losses))
            print(f"| {seed} | {name} | {100 * BARS[name]:g} % | {shares} |", flush=True)
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
