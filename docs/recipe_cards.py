"""The gallery of recipes: a card for each, out of its file, the tables of the results and the images that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from shoal.api.experiment import load_experiment
from shoal.recipes import describe, find, names

HERE = Path(__file__).parent
FAMILIES = {
    "Teams and rivals": ("spread", "reference", "speaker-listener", "tag", "multi-cartpole", "two-step-game", "pistonball"),
    "Self-play and leagues": ("connect-four", "kuhn-psro", "rps-league", "leduc-ppo"),
    "Exploration and memory": ("deep-sea", "deep-sea-stages", "memory-corridor", "cartpole-memory", "cartpole-memory-r2d2"),
}  # fmt: skip
REST = "One agent"


def gallery() -> str:
    """All recipes, by what they are about; one that no family names is shown with the rest."""
    placed = {recipe for recipes in FAMILIES.values() for recipe in recipes}
    groups = {**FAMILIES, REST: tuple(name for name in names() if name not in placed)}
    found = measured()
    parts = []
    for title, recipes in groups.items():
        cards = "\n".join(card(recipe, found.get(recipe, {})) for recipe in recipes)
        parts.append(f'## {title}\n\n<div class="grid cards" markdown>\n\n{cards}\n</div>')
    return "\n\n".join(parts)


def card(recipe: str, row: dict[str, str]) -> str:
    """One item of a list: image, what it is, curve, what was measured, the command."""
    experiment = load_experiment(find(recipe), [])
    lines = [f"**{recipe}** · {experiment.algorithm.name}"]
    for kind, words in (("still", f"The environment of {recipe}"), ("curve", f"Learning curve of {recipe}")):
        if images := sorted((HERE / "images/recipes").glob(f"{recipe}-{kind}.*")):
            lines.append(f"![{words}](images/recipes/{images[0].name}){{ loading=lazy width=280 }}")
    lines.insert(2 if len(lines) > 1 else 1, describe(recipe))
    lines += [facts(row), f"`shoal train {recipe}`"]
    return "-   " + "\n\n    ".join(lines) + "\n"


def facts(row: dict[str, str]) -> str:
    """Score, bar, steps and seconds, as far as they were measured."""
    if not row:
        return "Not measured to a score: see [Results](results.md)."
    parts = []
    if score := row.get("greedy mean return"):
        parts.append(f"greedy return {_range(score)}")
    if (bar := row.get("bar", "none")) != "none":
        parts.append(f"bar {bar} steps")
    parts += [f"{_range(row[name])} {name}" for name in ("steps", "seconds") if row.get(name)]
    return f"{'; '.join(parts)} ([Results](results.md))."


def _range(cell: str) -> str:
    """`2 to 9` for a list of numbers, and the text as it is where there are words in it."""
    texts = cell.removesuffix(" each").split(", ")
    try:
        values = {float(text.replace(",", "")): text for text in texts}
    except ValueError:
        return re.split(r"[:;]|, in ", cell)[0].strip()
    return texts[0] if len(values) == 1 else f"{values[min(values)]} to {values[max(values)]}"


def measured() -> dict[str, dict[str, str]]:
    """Recipe -> heading of a column -> cell, of the first table of the results that has it as a row."""
    found: dict[str, dict[str, str]] = {}
    head: list[str] = []
    for line in (HERE / "results.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            head = []
        elif not head:
            head = cells
        elif (match := re.fullmatch(r"`([\w-]+)`", cells[0])) and "steps" in head and "greedy mean return" in head:
            found.setdefault(match[1], dict(zip(head, cells, strict=False)))
    return found


def unknown() -> list[Any]:
    """Names in families that are no recipe."""
    return [recipe for recipes in FAMILIES.values() for recipe in recipes if recipe not in names()]
