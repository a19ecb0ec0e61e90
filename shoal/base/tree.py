"""Nested dicts and tuples of arrays, and the two walks over them.

A *tree* is a leaf, None, or a dict or tuple of trees. Leaves are numpy arrays or torch tensors; nothing here looks inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Tree = Any


def tree_map(fn: Callable[..., Any], tree: Tree, *rest: Tree) -> Tree:
    """Apply `fn` leaf by leaf over trees of one shape. None stays None."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: tree_map(fn, value, *(other[key] for other in rest)) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return tuple(tree_map(fn, value, *(other[i] for other in rest)) for i, value in enumerate(tree))
    return fn(tree, *rest)


def tree_leaves(tree: Tree, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its path (`position/0/x`), depth first, in insertion order."""
    if tree is None:
        return
    if isinstance(tree, dict):
        items: Any = tree.items()
    elif isinstance(tree, tuple):
        items = enumerate(tree)
    else:
        yield path, tree
        return
    for key, value in items:
        yield from tree_leaves(value, f"{path}/{key}" if path else str(key))
