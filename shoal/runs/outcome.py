"""Where a run goes to, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shoal.api.evaluation import Scores


@dataclass(frozen=True)
class Cluster:
    """Which Ray runs it, for `--on ray`."""

    address: str | None = None
    """`auto`, or HOST:PORT; None: one of our own on this machine, which ends with the run."""
    working_dir: str | None = None
    """The folder with the user's own code, if the machines do not share it."""
    detach: bool = False
    """Return once the run has begun."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    """Where the run is."""
    reason: str
    """Which stop rule, order or callback ended it."""
    steps: int
    """Environment steps."""
    version: int
    """Updates."""
    seconds: float
    """Of wall time, evaluation included."""
    scores: Scores | None
    """The last confirmation, if there was one."""
    interrupted: bool
    """By a signal: it can be resumed."""
