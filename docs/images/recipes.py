"""Draws what the cards of the gallery show: a still of each environment, and the learning curve of one run.

Run from the repository: `.venv/bin/python docs/images/recipes.py cartpole spread`. Each recipe is trained to its end, with its
own seed; with `--still` for one update only, and without a curve. Environments that cannot draw themselves have no still.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import av
from PIL import Image

import shoal
from shoal.api.experiment import load_experiment
from shoal.base.errors import InputError
from shoal.recipes import find
from shoal.runs.rollout import rollout

FOLDER = Path(__file__).parent / "recipes"
SIDE, COLOURS = 280, 48
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 280, 130, 46, 24, 14
INK, FAINT = "#0072B2", "#767676"


def trained(recipe: str, root: str, *, still: bool) -> Path:
    """The folder of its run."""
    overrides = ["stop.updates=1", "env.num_envs=4", "stop.steps=4000", "stop.return=null"] if still else []
    return shoal.train(load_experiment(find(recipe), overrides), root=root, quiet=True).folder


def draw_still(recipe: str, run: Path) -> None:
    """An image from the middle of an episode."""
    try:
        _, folder = rollout(str(run), episodes=1, video=True)
    except InputError as error:
        print(f"{recipe}: no still ({error})")
        return
    with av.open(str(folder / "episode-00000.mp4")) as video:
        frames = [frame.to_image() for frame in video.decode(video=0)]
    image = frames[len(frames) // 3]
    image = image.resize((SIDE, round(SIDE * image.height / image.width)), Image.Resampling.LANCZOS)
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(FOLDER / f"{recipe}-still.png", optimize=True)


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def draw_curve(recipe: str, run: Path) -> None:
    """Training return over steps, of an agent where there are several, with random play where it is known."""
    rows = rows_of(run)
    several = "rollout/agent_return" in rows[-1]
    column = "rollout/agent_return" if several else "rollout/ep_rew_mean"
    points = [(row["step"], row[column]) for row in rows if column in row]
    points = points[:: max(1, len(points) // 120)] + points[-1:]
    random = rows[-1].get("baseline/random_agent_return") if several else None
    levels = [y for _, y in points] + ([random] if random is not None else [])
    low, high, last = min(levels), max(levels), points[-1][0]
    high = high if high > low else low + 1

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - 8) * x / last
        return across, TOP + (HEIGHT - TOP - BOTTOM) * (high - y) / (high - low)

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
    parts = [f"<polyline points='{line}' fill='none' stroke='{INK}' stroke-width='1.8'/>"]
    if random is not None:
        y = at(0, random)[1]
        parts.append(f"<path d='M{LEFT},{y:.1f} H{WIDTH - 8}' stroke='{FAINT}' stroke-dasharray='4 3'/>")
        parts.append(words(WIDTH - 8, y - 4 if y > 30 else y + 13, "random play", "end"))
    parts += [words(LEFT - 5, at(0, level)[1] + 4, f"{level:.3g}", "end") for level in (low, high)]
    what = "return per agent" if several else "training return"
    parts.append(words(LEFT, HEIGHT - 7, f"{what}, {last:,} steps", "start"))
    size = f"viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}'"
    paper = f"<rect width='{WIDTH}' height='{HEIGHT}' fill='#ffffff'/>"
    text = f"<svg xmlns='http://www.w3.org/2000/svg' {size} role='img'>{paper}\n" + "\n".join(parts) + "\n</svg>\n"
    (FOLDER / f"{recipe}-curve.svg").write_text(text)


def words(x: float, y: float, text: str, anchor: str) -> str:
    font = "font-family='system-ui, sans-serif' font-size='11'"
    return f"<text x='{x:.0f}' y='{y:.0f}' {font} fill='{FAINT}' text-anchor='{anchor}'>{escape(text)}</text>"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--still", action="store_true")
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for recipe in options.recipes:
        with tempfile.TemporaryDirectory() as root:
            run = trained(recipe, root, still=options.still)
            draw_still(recipe, run)
            if not options.still:
                draw_curve(recipe, run)
        print(recipe, flush=True)


if __name__ == "__main__":
    main()
