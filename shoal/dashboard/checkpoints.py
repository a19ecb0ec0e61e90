"""The checkpoints of a run as a list. Reads manifests and tags; opens no tensor and tidies nothing up."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

from shoal.base.errors import InputError
from shoal.checkpoints import manifest as manifests
from shoal.checkpoints.manifest import MANIFEST, DamageError
from shoal.checkpoints.tags import Tags
from shoal.dashboard.below import Root

LARGEST = 4 << 20
"""Bytes of a manifest."""
MOST = 200


def list_checkpoints(root: Root, name: str) -> list[dict[str, Any]]:
    """Newest first: version, steps, when, size, tags, and what is wrong with its manifest."""
    parts = [*name.split("/"), "checkpoints"]
    tags = _tags(root, parts)
    versions = [each for each in root.names(*parts, folders=True) if re.fullmatch(r"\d{10,20}", each)]
    return [_row(root, [*parts, each], tags) for each in reversed(versions[-MOST:])]


def _tags(root: Root, parts: list[str]) -> dict[str, int]:
    with contextlib.suppress(OSError), root.folder(*parts, "tags") as handle:
        return Tags(Path(f"/proc/self/fd/{handle}")).read()[0]
    return {}


def _row(root: Root, parts: list[str], tags: dict[str, int]) -> dict[str, Any]:
    version = int(parts[-1])
    row: dict[str, Any] = {"version": version, "steps": None, "saved": None, "bytes": 0, "damage": None}
    row["tags"] = sorted(tag for tag, tagged in tags.items() if tagged == version)
    try:
        with root.folder(*parts) as handle, os.scandir(handle) as entries:
            row["bytes"] = sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        with root.file(*parts, MANIFEST) as file:
            found = manifests.read(file.read(LARGEST), version)
        row |= {"steps": found["meta"].get("steps"), "saved": found["saved"]}
    except (DamageError, InputError) as damage:
        row["damage"] = str(damage)[:300]
    except OSError:  # it is being removed
        row["damage"] = "it is gone"
    return row
