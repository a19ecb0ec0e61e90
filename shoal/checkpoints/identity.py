"""Whose checkpoints these are: all of one run carry the same random name, so that one of another run is told apart.

It is kept in `run.json` beside them. Where that is missing or damaged nobody is refused: older runs have none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from shoal.base.files import read_small, write_atomic
from shoal.checkpoints.manifest import DamageError, proven, sealed

IDENTITY = "run.json"


def known_identity(folder: Path) -> str:
    """The name that checkpoints in `folder` carry; empty where it is not known."""
    with contextlib.suppress(OSError, DamageError):
        return str(proven(read_small(folder / IDENTITY), IDENTITY).get("run", ""))
    return ""


def make_identity(folder: Path, carried: Iterable[str]) -> str:
    """For a run without one: what its checkpoints carry, newest first, or a new one."""
    run = next(filter(None, carried), "") or uuid4().hex
    write_atomic(folder / IDENTITY, sealed({"run": run}))
    return run
