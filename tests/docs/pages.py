"""The pages of the documentation, and what their fences hold.

A fence's language says how it is checked: `yaml` is an experiment and loads; `python` runs, page by page in one namespace;
`bash` are commands that succeed; `console` are commands (`$ ...`) with what they print, where `...` stands for anything.
A fence with `title="name"` is written to that file first. `text` is only shown.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fence."""

    language: str
    title: str
    text: str


@dataclass(frozen=True)
class Command:
    """One line for a shell; `output` is None where the page does not show it."""

    line: str
    output: str | None = None


def pages() -> list[Path]:
    """Every page a reader may open."""
    return [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CODE_OF_CONDUCT.md",
        ROOT / "examples/README.md",
        *sorted((ROOT / "shoal/algorithms").glob("*/README.md")),
        *sorted(DOCS.rglob("*.md")),
    ]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """Its fences, in order."""
    return [Block(*match.groups(default="")) for match in FENCE.finditer(page.read_text())]


def prose(page: Path) -> str:
    """The page without its fences."""
    return FENCE.sub("", page.read_text())


def commands(block: Block) -> Iterator[Command]:
    """The commands of a `bash` or `console` fence."""
    if block.language == "bash":
        yield from (Command(line) for line in block.text.splitlines() if line.strip())
        return
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        yield Command(line, output)


def cells(page: Path, heading: str = "") -> list[list[str]]:
    """The rows of all tables below `heading`, without their heads."""
    text = page.read_text()
    lines = [line for line in text[text.index(heading) :].splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for i, row in enumerate(rows) if not _is_head(rows, i)]


def _is_head(rows: list[list[str]], i: int) -> bool:
    def ruled(row: list[str]) -> bool:
        return all(set(cell) == {"-"} for cell in row)

    return ruled(rows[i]) or (i + 1 < len(rows) and ruled(rows[i + 1]))


def hooks() -> Any:
    """`docs/hooks.py`, as mkdocs imports it: by path."""
    spec = importlib.util.spec_from_file_location("docs_hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
