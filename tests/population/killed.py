"""A population that kills itself at a write of its journal: `python -m tests.population.killed ROOT KIND WRITE HOW`.

HOW: `before` the line is written, with half of it `torn`, or `after` it is on the disk. Without WRITE and HOW, it lives. Resumed if
it is there.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from shoal.monitoring.jsonl import encode_line
from shoal.population import journal
from shoal.population.folder import PopulationFolder
from shoal.population.start import Options, population, sweep
from tests.population.small import values

SWEEP = {"sweep": {"grid": {"algorithm.lr": [1e-3, 3e-3]}, "seeds": 1}}
PBT: dict[str, Any] = {
    "stop": {"steps": 768},
    "population": {
        "members": 3, "every": "256 steps", "exploit": "binary tournament", "episodes": 2,
        "space": {"algorithm.lr": {"log": [1e-4, 1e-1]}, "algorithm.entropy": {"linear": [0.0, 0.1]}},
    },
}  # fmt: skip
PB2 = {**PBT, "population": {**PBT["population"], "explore": "pb2"}}
KINDS: dict[str, Any] = {"sweep": (sweep, SWEEP), "pbt": (population, PBT), "pb2": (population, PB2)}


def kill_at(write: int, how: str) -> None:
    """The real journal, up to that write of this start."""
    append, count = journal.Journal.append, 0

    def watched(self: journal.Journal, kind: str, **facts: Any) -> journal.Line:
        nonlocal count
        count += 1
        if count == write and how == "torn":
            assert self._file is not None
            os.write(self._file, encode_line({"kind": kind, **facts})[:-9])
        if count == write and how != "after":
            os.kill(os.getpid(), signal.SIGKILL)
        line = append(self, kind, **facts)
        if count == write:
            os.kill(os.getpid(), signal.SIGKILL)
        return line

    journal.Journal.append = watched  # type: ignore[method-assign]


def main(root: str, kind: str, write: str = "0", how: str = "") -> None:
    if int(write):
        kill_at(int(write), how)
    start, section = KINDS[kind]
    resume = PopulationFolder(Path(root) / kind).exists
    done = start(values(**section), [], Options(kind, root=Path(root), parallel=2, resume=resume, quiet=True))
    print(done.reason)


if __name__ == "__main__":
    main(*sys.argv[1:])
