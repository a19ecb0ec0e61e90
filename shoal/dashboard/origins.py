"""Where the settings of a run come from: each beside what its recipe says, and beside what it is by default."""

from __future__ import annotations

import json
from typing import Any

import yaml

from shoal import recipes
from shoal.analysis.trials import flat
from shoal.dashboard.below import Root
from shoal.dashboard.defaults import defaults_for

LARGEST = 1 << 20
_SHOWN = ("started", "command", "launcher", "seed", "versions", "machine")


def where_from(root: Root, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """One row per setting, and what is known of the start."""
    provenance = _provenance(root, name)
    recipe = _recipe(provenance, settings)
    written = _of_recipe(recipe) if recipe else {}
    defaults = defaults_for(settings)
    rows = []
    for key, value in settings.items():
        before = written.get(key, defaults.get(key, value))
        rows.append({
            "key": key, "value": _text(value),
            "recipe": _text(before) if recipe and not _same(before, value) else None,
            "default": _text(defaults[key]) if key in defaults and not _same(defaults[key], value) else None,
        })  # fmt: skip
    return {
        "recipe": recipe,
        "settings": rows,
        "provenance": {key: provenance[key] for key in _SHOWN if key in provenance},
    }


def _provenance(root: Root, name: str) -> dict[str, Any]:
    try:
        with root.file(*name.split("/"), "provenance.json") as file:
            found = json.loads(file.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _recipe(provenance: dict[str, Any], settings: dict[str, Any]) -> str | None:
    """One that Shoal ships: as it was typed, else of the experiment's name. A file of the user's own lies outside ROOT."""
    command = provenance.get("command")
    typed = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    known = recipes.names()
    name = next((word for word in typed if word in known), settings.get("name"))
    return name if name in known else None


def _of_recipe(recipe: str) -> dict[str, Any]:
    values = yaml.safe_load((recipes.FOLDER / f"{recipe}.yaml").read_text())
    return {str(key): value for key, value in flat(values)}


def _same(one: Any, other: Any) -> bool:
    """`1e-3` is text to YAML and a number to Shoal; `5m` is a span."""
    if one == other or str(one) == str(other):
        return True
    try:
        return float(one) == float(other)
    except (TypeError, ValueError):
        return _span(one) == other


def _span(value: Any) -> Any:
    from shoal.base.duration import parse_duration

    try:
        return parse_duration(value)
    except (ValueError, TypeError):
        return value


def _text(value: Any) -> str:
    return ("null" if value is None else str(value).lower() if isinstance(value, bool) else str(value))[:500]
