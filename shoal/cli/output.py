"""What scripts read."""

from __future__ import annotations

import json
from typing import Any


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(document, indent=2))
