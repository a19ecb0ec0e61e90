"""The gallery of recipes: a card for each, out of its file, the tables of the results and the images that there are."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from shoal.api.experiment import Experiment, load_experiment
from shoal.recipes import describe, find, names

HERE = Path(__file__).parent
IMAGES = HERE / "images/recipes"
FAMILIES = {
    "Teams and rivals": ("spread", "reference", "speaker-listener", "tag", "multi-cartpole", "two-step-game", "pistonball"),
    "Self-play and leagues": (
        "connect-four", "connect-four-league", "tictactoe-league", "rps-league", "kuhn-psro", "leduc-psro", "leduc-ppo",
        "tag-league",
    ),
    "Exploration and memory": ("deep-sea", "deep-sea-stages", "memory-corridor", "cartpole-memory", "cartpole-memory-r2d2"),
    "Many runs, and many places": (
        "cartpole-sweep", "pendulum-tune", "lunarlander-pbt", "cartpole-a4c", "cartpole-a4q", "lunarlander-a4c",
    ),
}  # fmt: skip
REST = "One agent"
ELSEWHERE = {"pong": "images/pong.svg"}
"""Curves that a page of its own draws."""
SCORES = {"greedy mean return": "greedy return", "exploitability": "exploitability"}
"""Heading of a column of the results -> what it is called on a card."""
UNDRAWN, UNTRAINED = "No learning curve is drawn yet.", "No learning curve: it was not trained to its end here."
COSTS = ("steps", "seconds", "core-minutes")
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
Rows = list[dict[str, str]]


def gallery() -> str:
    """All recipes, by what they are about; one that no family names is shown with the rest."""
    placed = {recipe for recipes in FAMILIES.values() for recipe in recipes}
    groups = {**FAMILIES, REST: tuple(name for name in names() if name not in placed)}
    found = measured()
    parts = []
    for title, recipes in groups.items():
        cards = "\n".join(card(recipe, found.get(recipe, [])) for recipe in recipes)
        parts.append(f'## {title}\n\n<div class="grid cards" markdown>\n\n{cards}\n</div>')
    return "\n\n".join(parts)


def card(recipe: str, rows: Rows) -> str:
    """One item of a list: image, what it is, curve, what was measured, the command."""
    experiment = read(recipe)
    lines = [f"**{recipe}** · {experiment.algorithm.name}"]
    if image := still(recipe):
        lines.append(_image(image, f"The environment of {recipe}"))
    else:
        lines.append("No image: its environment does not draw itself.")
    lines.append(describe(recipe))
    if image := curve(recipe):
        lines.append(_image(image, f"Learning curve of {recipe}{_caption(image)}"))
    else:
        lines.append(UNDRAWN if rows else UNTRAINED)
    lines += [facts(rows), f"`shoal {command(experiment)} {recipe}`"]
    return "-   " + "\n\n    ".join(lines) + "\n"


@cache
def read(recipe: str) -> Experiment:
    """Its settings."""
    return load_experiment(find(recipe), [])


def still(recipe: str) -> str | None:
    """Its image, or that of another recipe with the same environment."""
    same = [other for other in names() if read(other).env.id == read(recipe).env.id]
    found = [image for name in (recipe, *same) for image in sorted(IMAGES.glob(f"{name}-still.*"))]
    return f"images/recipes/{found[0].name}" if found else None


def curve(recipe: str) -> str | None:
    """The learning curve of one run of it."""
    path = IMAGES / f"{recipe}-curve.svg"
    return f"images/recipes/{path.name}" if path.is_file() else ELSEWHERE.get(recipe)


def command(experiment: Experiment) -> str:
    """Which command takes it to its end."""
    return "sweep" if experiment.sweep is not None else "tune" if experiment.tune is not None else "train"


def _image(path: str, words: str) -> str:
    return f"![{words}]({path}){{ loading=lazy width=280 }}"


def _caption(path: str) -> str:
    """What a curve says of itself, for those who do not see it."""
    words = re.findall(r">([^<>]+, [\d,]+ steps)</text>", (HERE / path).read_text())
    return f": {words[-1]}" if words else ""


# ---------------------------------------------------------------- what was measured


def facts(rows: Rows) -> str:
    """Score, bar, steps and seconds, as far as they were measured; several rows are seeds."""
    if not rows:
        return "Not measured to a score: see [Results](results.md)."
    parts = []
    for column, words in SCORES.items():
        if score := _of_all([row.get(column, "") for row in rows]):
            parts.append(f"{'greedy play' if '%' in score else words}: {score}")
    missed = sum("missed" in cell for row in rows for cell in row.values())
    if (bar := rows[0].get("bar", "none")) != "none":
        unit = " steps" if re.search(r"within [\d,]+$", bar) else ""
        by = f", missed by {missed} of {len(rows)} seeds" if len(rows) > 1 else ", missed"
        parts.append(f"bar {bar}{unit}{by if missed else ''}")
    parts += [f"{_range(rows[0][name])} {name}" for name in COSTS if rows[0].get(name)]
    return f"{'; '.join(parts)} ([Results](results.md))."


def _of_all(cells: list[str]) -> str:
    """Of one row as it is, of several the number that each begins with. Empty where a cell begins with words of a failure."""
    if len(cells) == 1:
        return "" if cells[0].startswith("missed") else _range(cells[0])
    return _range(", ".join(match[0] for cell in cells if (match := NUMBER.match(cell))))


def _range(cell: str) -> str:
    """`2 to 9` for a list of numbers, with the words behind them; the text as it is where it begins with words."""
    text = re.sub(r"(?<=\d) each$", "", re.split(r"[:;]|, in ", cell)[0].strip())
    *texts, last = text.split(", ")
    last, _, words = last.partition(" ")
    try:
        values = {float(each.replace(",", "")): each for each in (*texts, last)}
    except ValueError:
        return text
    spread = last if len(values) == 1 else f"{values[min(values)]} to {values[max(values)]}"
    return f"{spread} {words}".rstrip()


def measured() -> dict[str, Rows]:
    """Recipe -> its rows (heading of a column -> cell) in the first table of the results that has it."""
    found: dict[str, Rows] = {}
    head: list[str] = []
    rows: Rows = []
    for line in (HERE / "results.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            head, rows = [], []
        elif not head:
            head = cells
        elif "steps" in head and SCORES.keys() & set(head):
            if match := re.fullmatch(r"`([\w-]+)`", cells[0]):
                rows = []
                found.setdefault(match[1], rows)
            if match or not cells[0]:
                rows.append(dict(zip(head, cells, strict=False)))
    return found


def unknown() -> list[Any]:
    """Names in families that are no recipe."""
    return [recipe for recipes in FAMILIES.values() for recipe in recipes if recipe not in names()]
