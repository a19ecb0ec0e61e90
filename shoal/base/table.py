"""One table per kind of component: `name -> "module:Class"`, imported only when chosen.

A user's own component goes the same way: `my_package.my_module:MyClass`, or `path/to/file.py:MyClass`.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from shoal.base.errors import InputError, own_code
from shoal.base.peers import ALGORITHMS


def did_you_mean(word: str, known: Iterable[str], peer: str | None = None) -> str:
    """`did you mean 'clip'?`, or the list of what there is. `peer`: ours for what other libraries call so, if they do."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6 if peer is None else 0.9)
    if close or peer:
        return f"did you mean '{close[0] if close else peer}'?"
    return f"choose from: {', '.join(known)}" if known else "there are none"


def import_target(target: str, *, key: str) -> Any:
    """The object that `module:attribute` or `file.py:attribute` names; `key` is the setting that said so."""
    module_name, _, attribute = target.rpartition(":")
    if not module_name or not attribute:
        raise InputError(f"{key} = '{target}' is not of the form module:Name or file.py:Name")
    with own_code(f"{key} = '{target}'"):
        module = import_module(module_name, target, key)
    try:
        found: Any = module
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError:
        names = [name for name in vars(module) if not name.startswith("_")]
        raise InputError(
            f"{key} = '{target}': '{module_name}' has no '{attribute}'; {did_you_mean(attribute, names)}"
        ) from None
    return found


def import_module(name: str, target: str, key: str) -> ModuleType:
    """The module `name`, for the setting `key = target`."""
    if name.endswith(".py"):
        return _import_file(Path(name), target, key)
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise InputError(
                f"{key} = '{target}': there is no module '{error.name}' here; run from its folder or install it"
            ) from None
        raise _missing(target, key, error) from None


def _missing(target: str, key: str, error: ModuleNotFoundError) -> InputError:
    return InputError(f"{key} = '{target}' needs the package '{error.name}', which is not installed")


def _import_file(path: Path, target: str, key: str) -> ModuleType:
    if not path.is_file():
        raise InputError(f"{key} = '{target}': there is no file '{path}'")
    name = f"shoal_user_{path.stem}_{abs(hash(path.resolve()))}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.parent.resolve())
    if folder not in sys.path:  # as for a script: files beside it can be imported
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        del sys.modules[name]
        raise _missing(target, key, error) from None
    except BaseException:
        del sys.modules[name]
        raise
    return module


class Table:
    """The components of one kind that Shoal ships."""

    def __init__(self, kind: str, entries: dict[str, str]) -> None:
        self.kind = kind
        self.entries = entries

    def load(self, name: str) -> Any:
        """The class of that name, or the user's own if the name is `module:Class`."""
        key = f"{self.kind}.name"
        if ":" in name:
            return import_target(name, key=key)
        if name not in self.entries:
            peer = ALGORITHMS.get(name.lower()) if self.kind == "algorithm" else None
            raise InputError(
                f"{key} = '{name}' is not known; {did_you_mean(name, self.entries, peer)} (or your own module:Class)"
            )
        return import_target(self.entries[name], key=key)
