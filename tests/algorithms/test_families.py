"""Families of algorithms import one way: what two of them need lies above them or in one of them."""

from __future__ import annotations

import ast
from pathlib import Path

import shoal.algorithms

HOME = Path(shoal.algorithms.__file__).parent
ORDER = ("kernels", "actor_critic", "q_learning", "sac", "novelty")
"""A family imports from itself, from files above, and from those before it."""


def imported(path: Path) -> set[str]:
    found = {node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[2] for name in found if name.startswith("shoal.algorithms.")} & set(ORDER)


def test_every_family_is_known_and_has_a_page() -> None:
    folders = {path.name for path in HOME.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ORDER)
    assert all((HOME / name / "README.md").is_file() for name in ORDER[1:])


def test_families_import_one_way() -> None:
    for family in ORDER:
        for path in (HOME / family).glob("*.py"):
            later = {name for name in imported(path) if ORDER.index(name) > ORDER.index(family)}
            assert not later, f"{path.relative_to(HOME)} imports {later}"


def test_what_lies_above_knows_no_family() -> None:
    for path in HOME.glob("*.py"):
        assert not imported(path), path.name
