"""A study of one hyper-parameter: every value with several seeds, a table with intervals, a figure.

    python examples/study.py --key algorithm.lr --values 1e-3 4e-3 1.6e-2 --seeds 3

Runs that are there already are not trained again, so a study may be broken off and gone on with, or widened.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import shoal
from shoal.api.experiment import load_experiment
from shoal.recipes import find


def trained(recipe: str, key: str, value: str, seed: int, steps: int, root: Path) -> Path:
    """The folder of one run, trained now if it is not there."""
    name = f"{recipe}-{key.rpartition('.')[2]}-{value}"
    folder = root / name / f"seed-{seed}"
    if not folder.exists():
        overrides = [f"{key}={value}", f"seed={seed}", f"stop.steps={steps}", "stop.return=null", f"name={name}"]
        shoal.train(load_experiment(find(recipe), overrides), trial=folder.name, root=root, quiet=True)
    return folder


def curve(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Steps and training returns, row by row."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    points = [(row["step"], row["rollout/ep_rew_mean"]) for row in rows if "rollout/ep_rew_mean" in row]
    steps, returns = np.array(points, np.float64).T
    return steps, returns


def interval(values: np.ndarray, draws: int = 2_000) -> tuple[float, float]:
    """A bootstrap interval of 95 % of the mean."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (draws, len(values))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def draw(curves: dict[str, list[tuple[np.ndarray, np.ndarray]]], key: str, path: Path) -> None:
    """A line per value, the mean over seeds, with the range of the seeds behind it."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for value, runs in curves.items():
        last = min(steps[-1] for steps, _ in runs)
        axis = np.linspace(max(steps[0] for steps, _ in runs), last, 100)
        returns = np.stack([np.interp(axis, steps, earned) for steps, earned in runs])
        (line,) = axes.plot(axis, returns.mean(axis=0), label=f"{key} = {value}")
        axes.fill_between(axis, returns.min(axis=0), returns.max(axis=0), alpha=0.2, color=line.get_color())
    axes.set_xlabel("environment steps")
    axes.set_ylabel("training return")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description="A study of one hyper-parameter.")
    parser.add_argument("--recipe", default="cartpole")
    parser.add_argument("--key", default="algorithm.lr")
    parser.add_argument("--values", nargs="+", default=["1e-3", "4e-3", "1.6e-2"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--root", type=Path, default=Path("runs/study"))
    options = parser.parse_args()
    curves: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    print(f"{options.key:<16} {'greedy return':>13}  95 % interval")
    for value in options.values:
        seeds = range(1, options.seeds + 1)
        folders = [trained(options.recipe, options.key, value, s, options.steps, options.root) for s in seeds]
        scores = np.array([shoal.evaluate(str(f), episodes=options.episodes)[0].mean for f in folders])
        low, high = interval(scores)
        print(f"{value:<16} {scores.mean():>13.1f}  {low:.1f} to {high:.1f}", flush=True)
        curves[value] = [curve(folder) for folder in folders]
    path = options.root / f"{options.recipe}-{options.key.rpartition('.')[2]}.png"
    draw(curves, options.key, path)
    print(path)


if __name__ == "__main__":
    main()
