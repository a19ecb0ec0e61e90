"""One table per kind of component: `name -> "module:Class"`, imported only when chosen.

A user's own component goes the same way: `my_package.my_module:MyClass`, or `path/to/file.py:MyClass`. The current folder is
searched only for a module that is named so, and after all that is installed: no file in it can pass for a library.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import operator
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

from shoal.base.errors import InputError, own_code
from shoal.base.peers import algorithm_line


def did_you_mean(word: str, known: Iterable[str], peer: str | None = None) -> str:
    """`did you mean 'clip'?`, or the list of what there is. `peer`: ours for what other libraries call so, if they do."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6 if peer is None else 0.9)
    if close or peer:
        return f"did you mean '{close[0] if close else peer}'?"
    return f"choose from: {', '.join(known)}" if known else "there are none"


USER_FILE = "shoal_user_"
"""How modules are called that were imported by the path of their file."""

_importing: ContextVar[str | None] = ContextVar("importing", default=None)


def being_imported() -> str | None:
    """The module or file that is being imported right now because a setting names it; None: there is none."""
    return _importing.get()


def target_of(thing: Any) -> str:
    """What `import_target` finds it by, in any process; ValueError says why there is nothing."""
    name = getattr(thing, "__qualname__", None)
    if not callable(thing) or name is None:
        raise ValueError("pass a class or a function, or its name as text")
    if "<" in name:
        raise ValueError(
            f"worker processes cannot import '{name}': define it at the top level of a file, not in a function"
        )
    module = sys.modules.get(thing.__module__)
    if module is None or _attribute(module, name) is not thing:
        raise ValueError(
            f"worker processes cannot import '{name}': put it into a file of its own, and import it from there"
        )
    return f"{name_elsewhere(module)}:{name}"


def name_elsewhere(module: ModuleType) -> str:
    """What other processes import it by: scripts and what was imported by path, by their file."""
    if module.__name__ == "__main__" and module.__spec__ is not None:  # python -m
        return module.__spec__.name
    if module.__name__ != "__main__" and not module.__name__.startswith(USER_FILE):
        return module.__name__
    path = Path(getattr(module, "__file__", None) or "").resolve()
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(
            "worker processes cannot import from a session: put it into a .py file, and import it from there"
        )
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _attribute(module: ModuleType, path: str) -> Any:
    try:
        return operator.attrgetter(path)(module)
    except AttributeError:
        return None


_home = Path()
"""What the paths of files are relative to."""


@contextmanager
def from_here() -> Iterator[None]:
    """Files are meant as seen from the folder of this moment, whichever one an environment goes to meanwhile."""
    global _home
    before, _home = _home, _home.absolute()
    try:
        yield
    finally:
        _home = before


def user_path(path: str) -> Path:
    """A file that a setting names, as seen from that folder."""
    return _home / path


def import_target(target: str, *, key: str) -> Any:
    """The object that `module:attribute` or `file.py:attribute` names; `key` is the setting that said so."""
    module_name, _, attribute = target.rpartition(":")
    if not module_name or not attribute:
        raise InputError(f"{key} = '{target}' is not of the form module:Name or file.py:Name")
    outer = _importing.set(module_name)
    try:
        with own_code(f"{key} = '{target}'"):
            module = import_module(module_name, target, key)
    finally:
        _importing.reset(outer)
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
        return _import_file(_home / name, target, key)
    if not _is_installed(name.partition(".")[0]) and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise InputError(
                f"{key} = '{target}': there is no module '{error.name}' here; run from its folder or install it"
            ) from None
        raise _missing(target, key, error) from None


def _is_installed(top: str) -> bool:
    """A bare folder counts as none: it would hide a package of that name in the current folder."""
    if not top or top in sys.modules:
        return bool(top)
    spec = importlib.util.find_spec(top)
    return spec is not None and spec.origin is not None


def _missing(target: str, key: str, error: ModuleNotFoundError) -> InputError:
    return InputError(f"{key} = '{target}' needs the package '{error.name}', which is not installed")


def _import_file(path: Path, target: str, key: str) -> ModuleType:
    if not path.is_file():
        raise InputError(f"{key} = '{target}': there is no file '{target.rpartition(':')[0]}'")
    name = f"{USER_FILE}{path.stem}_{abs(hash(path.resolve()))}"
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
            line = algorithm_line(name) if self.kind == "algorithm" else None
            remedy = line or did_you_mean(name, self.entries)
            raise InputError(f"{key} = '{name}' is not known; {remedy} (or your own module:Class)")
        return import_target(self.entries[name], key=key)
