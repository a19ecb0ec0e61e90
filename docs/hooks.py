"""A hook of mkdocs: pages leave places for what the code says already, and this fills them.

`<!-- settings: module:Class at.key -->` becomes a table of a Config's fields, read from their docstrings. `at.key` stands
before every key. `<!-- include: path -->` becomes the text of a file of the repository. `<!-- api: name -->` becomes what the
code says of a public name, `<!-- recipes: all -->` a card for every recipe.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import types
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from shoal.base.cadence import parse_cadence
from shoal.base.config import Named, Schedule, describe
from shoal.base.duration import format_duration, parse_duration

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"^<!-- (settings|include|api|recipes): (\S+) ?(\S*) -->$", re.MULTILINE)
BOOSTS = {"tasks": 2.0, "tutorial": 1.5, "decisions": 0.3}
"""Folder -> how much more a word of its pages counts in the search."""
SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
WORDS: dict[Any, str] = {
    float: "number", int: "whole number", bool: "`true`, `false`", str: "text",
    Named: "section with a `name`", Schedule: "[schedule](../nouns/experiment.md#schedules)",
}  # fmt: skip


def on_config(config: Any, **_: Any) -> Any:
    """Called by mkdocs once. Who publishes the site says where the repository is."""
    if address := os.environ.get("SHOAL_REPOSITORY"):
        config.repo_url, config.repo_name = address, "Repository"
    return config


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Called by mkdocs for every page. What tells how to do something is found before what tells why."""
    if page is not None:
        page.meta["search"] = {"boost": BOOSTS.get(page.file.src_uri.partition("/")[0], 1.0)}
    return fill(markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """Called by mkdocs in the end. The index has `&amp;` where a reader types `&`: W&B would never be found."""
    index = Path(config.site_dir, "search/search_index.json")
    index.write_text(index.read_text().replace("W&amp;B", "W&B"))


def fill(markdown: str) -> str:
    """The page with all its places filled."""
    return PLACE.sub(_filled, markdown)


def _filled(place: re.Match[str]) -> str:
    kind, what, at = place.groups()
    match kind:
        case "settings":
            return settings_table(what, at)
        case "api":
            return str(_beside("api_entries").api_entry(what))
        case "recipes":
            return str(_beside("recipe_cards").gallery())
    return (ROOT / what).read_text()


def _beside(name: str) -> types.ModuleType:
    """A file of this folder, by its path: the folder is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---------------------------------------------------------------- settings


def settings_table(target: str, at: str = "") -> str:
    """One row per field: key, what may stand there, default, meaning."""
    module, _, name = target.partition(":")
    config: type[BaseModel] = getattr(importlib.import_module(module), name)
    meanings = describe(config)
    rows = [
        _row(key, info, meanings.get(key, ""), at) for key, info in config.model_fields.items() if not _is_fixed(info)
    ]
    return "\n".join(["| key | values | default | meaning |", "|---|---|---|---|", *rows])


def _is_fixed(info: FieldInfo) -> bool:
    """`name: ppo` chooses the class and is no setting of it."""
    return typing.get_origin(info.annotation) is typing.Literal and len(typing.get_args(info.annotation)) == 1


def _row(key: str, info: FieldInfo, meaning: str, at: str) -> str:
    meaning = " ".join(meaning.split())
    if not meaning:
        raise ValueError(f"the field '{key}' has no docstring")
    name = f"{at}.{info.alias or key}" if at else info.alias or key
    cells = [f"`{name}`", _values(info), _default(info), meaning]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _is_parsed_by(parse: Any, info: FieldInfo) -> bool:
    return any(getattr(mark, "func", None) is parse for mark in info.metadata)


def _values(info: FieldInfo) -> str:
    if _is_parsed_by(parse_cadence, info):
        return "seconds, or `30s`, `5m`, `2h`, `3d`; `100_000 steps`; `50 updates`"
    if _is_parsed_by(parse_duration, info):
        return "seconds, or `30s`, `5m`, `2h`, `3d`"
    parts = typing.get_args(info.annotation) if _is_union(info.annotation) else (info.annotation,)
    words = [_words(part) for part in parts if part is not type(None)]
    words[-1] += _bounds(info.metadata)
    return ", ".join([*words, "`null`"] if type(None) in parts else words)


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (types.UnionType, typing.Union)


def _words(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _words(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is list:
        return f"list of {_plural(_words(arguments[0]))}"
    if origin is dict:
        return "keys and values"
    return WORDS.get(annotation, "section")


def _plural(words: str) -> str:
    return words.replace("list", "lists", 1) if words.startswith("list ") else f"{words}s"


def _bounds(metadata: Any) -> str:
    found = [
        f"{sign} {getattr(mark, name)}" for mark in metadata for name, sign in SIGNS.items() if hasattr(mark, name)
    ]
    return f" {', '.join(found)}".replace(str(2**63), "2^63") if found else ""


def _default(info: FieldInfo) -> str:
    value = info.default
    if info.is_required():
        return "required"
    if isinstance(value, Named):
        return f"`{value.name}`"
    if isinstance(value, BaseModel):
        return "its defaults"
    if isinstance(value, str) and _is_parsed_by(parse_cadence, info):
        return f"`{value}`"
    if _is_parsed_by(parse_duration, info) or _is_parsed_by(parse_cadence, info):
        return f"`{format_duration(value).split()[0]}`"
    return f"`{ {True: 'true', False: 'false', None: 'null'}[value] if isinstance(value, bool | None) else value }`"
