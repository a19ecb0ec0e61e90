"""What scripts read."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any


def command() -> str:
    """How this command is typed here: `shoal` where it is on the path, otherwise as it was started."""
    typed = Path(sys.argv[0])
    return "shoal" if shutil.which("shoal") or typed.name != "shoal" else os.path.relpath(typed)


def tell(*lines: str) -> None:
    """Lines on stdout, for a command that has done its work: where nobody reads any more, that is no failure of it."""
    try:
        print(*lines, sep="\n", flush=True)
    except OSError:  # what was not written, Python tries to write in the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(document, indent=2))
