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


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(document, indent=2))
