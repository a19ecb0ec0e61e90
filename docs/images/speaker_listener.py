"""Draws `speaker-listener.svg` and prints its table: the recipe with seeds 1 to 5, evaluated greedily along the way.

Run from the repository: `.venv/bin/python docs/images/speaker_listener.py RUNS`. RUNS is a folder for the runs; those that are
there already are not trained again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import shoal
from shoal.api.experiment import load_experiment
from shoal.recipes import find

HERE = Path(__file__).parent
SEEDS = (1, 2, 3, 4, 5)
VERSIONS = (1, 16, 31, 47, 62, 78, 94, 125, 156, 187, 218, 250)
"""Which are evaluated. A version is 3,200 steps."""
EPISODES = 100
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 64, 40, 24, 48
LOWEST = -45.0


class Point(NamedTuple):
    steps: int
    agent: list[float]
    """By seed: mean return of an agent."""
    game: list[float]
    """By seed: the game's own return, the mean over its agents."""


def train(seed: int, root: Path) -> Path:
    """One run that keeps every version."""
    folder = root / "speaker-listener" / f"seed-{seed}"
    if not folder.exists():
        settings = [f"seed={seed}", "checkpoint.every=0.001", "checkpoint.keep=1000"]
        experiment = load_experiment(find("speaker-listener"), settings)
        shoal.train(experiment, trial=folder.name, root=root, on="inline", quiet=True)
    return folder


def evaluated(runs: list[Path], version: int) -> Point:
    """All seeds at one version."""
    scores = [shoal.evaluate(str(run), episodes=EPISODES, seed=1000, checkpoint=str(version))[0] for run in runs]
    steps = next(row["step"] for row in rows_of(runs[0]) if row["update"] == version)
    return Point(steps, [mean(each.by_policy.values()) for each in scores], [each.game or 0.0 for each in scores])


def rows_of(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def table(points: list[Point]) -> str:
    lines = ["| steps | an agent: mean (least to most) | the game: mean (least to most) |", "|---|---|---|"]
    for steps, *scales in points:
        cells = [f"{mean(each):.1f} ({min(each):.1f} to {max(each):.1f})" for each in scales]
        lines.append(f"| {steps:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(points: list[Point], random: float) -> str:
    """The figure: mean over the seeds, a band from the least to the most, random play as a dashed line."""
    most = points[-1].steps

    def at(steps: float, value: float) -> str:
        x = LEFT + (WIDTH - LEFT - RIGHT) * steps / most
        y = TOP + (HEIGHT - TOP - BOTTOM) * value / LOWEST
        return f"{x:.1f},{y:.1f}"

    def line(start: str, end: str, style: str) -> str:
        (x1, y1), (x2, y2) = start.split(","), end.split(",")
        return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {style}/>'

    def text(place: str, words: str, style: str) -> str:
        x, y = place.split(",")
        return f'<text x="{x}" y="{y}" {style}>{words}</text>'

    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for value in range(0, int(LOWEST) - 1, -10):
        parts.append(line(at(0, value), at(most, value), 'stroke="#ddd"'))
        parts.append(text(at(0, value), str(value), 'text-anchor="end" dx="-8" dy="4"'))
    ticks = [(at(steps, LOWEST), f"{steps:,}") for steps in range(0, most + 1, 200_000)]
    parts += [text(*tick, 'text-anchor="middle" dy="18"') for tick in ticks]
    band = [at(p.steps, max(p.game)) for p in points] + [at(p.steps, min(p.game)) for p in reversed(points)]
    curve = [at(p.steps, mean(p.game)) for p in points]
    parts += [
        f'<polygon points="{" ".join(band)}" fill="#1f77b4" fill-opacity="0.25"/>',
        f'<polyline points="{" ".join(curve)}" fill="none" stroke="#1f77b4" stroke-width="2"/>',
        line(at(0, random), at(most, random), 'stroke="#888" stroke-dasharray="6 4"'),
        text(at(most, random), "random play", 'text-anchor="end" dy="-6"'),
        text(at(most, mean(points[-1].game)), "mean of 5 seeds, least to most", 'text-anchor="end" dy="-14"'),
        text(at(most / 2, LOWEST), "environment steps", 'text-anchor="middle" dy="38"'),
        text(f"{LEFT},{TOP}", "return of an episode, greedy play", 'dy="-8"'),
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def main(root: Path) -> None:
    """Train, evaluate, print, draw."""
    runs = [train(seed, root) for seed in SEEDS]
    points = [evaluated(runs, version) for version in VERSIONS]
    random = mean(rows_of(run)[-1]["baseline/random_agent_return"] for run in runs)
    print(table(points), f"\nrandom play: {random:.1f}")
    (HERE / "speaker-listener.svg").write_text(draw(points, random))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
