"""Experiments that work, by name: YAML files in this folder."""

from __future__ import annotations

from pathlib import Path

from shoal.base.errors import InputError
from shoal.base.peers import RECIPES
from shoal.base.table import did_you_mean

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Every recipe."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find(recipe: str) -> Path:
    """The file of a recipe, or the user's own file."""
    if recipe.endswith((".yaml", ".yml")):
        path = Path(recipe)
        if not path.is_file():
            raise InputError(f"there is no file '{recipe}'")
        return path
    if recipe not in names():
        peer = RECIPES.get(recipe.lower())
        raise InputError(
            f"there is no recipe '{recipe}'; {did_you_mean(recipe, names(), peer)} (or your own FILE.yaml)"
        )
    return FOLDER / f"{recipe}.yaml"


def describe(recipe: str) -> str:
    """The comment that a recipe starts with."""
    first = (FOLDER / f"{recipe}.yaml").read_text().splitlines()[0]
    return first.removeprefix("#").strip()
