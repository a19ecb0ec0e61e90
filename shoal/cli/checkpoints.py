"""`shoal checkpoints`."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shoal.base.importing import importing
from shoal.cli.output import print_json
from shoal.monitoring.run_folder import RunFolder

if TYPE_CHECKING:
    from shoal.checkpoints.store import CheckpointStore

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def run(run: str, *, json: bool) -> None:
    """Read all of every checkpoint, then print a row each."""
    with importing():
        from shoal.checkpoints.store import CheckpointStore

    folder = RunFolder.find(run)
    store = CheckpointStore(folder.checkpoints)
    rows = []
    for version in store.versions():
        with contextlib.suppress(FileNotFoundError):  # a live run removes old ones while we look
            rows.append(_row(store, version))
    damaged = store.damaged_tags()
    if json:
        print_json({"run": folder.name, "checkpoints": rows, "damaged_tags": damaged})
        return
    _print(rows)
    for name, reason in damaged.items():
        print(f"the tag '{name}' is damaged: {reason}")
    if not rows:
        print(f"{folder.name} has no checkpoint yet")


def _row(store: CheckpointStore, version: int) -> dict[str, Any]:
    manifest, damage = store.inspect(version)
    path = store.path(version)
    saved = manifest["saved"] if manifest else None
    return {
        "version": version,
        "steps": manifest["meta"].get("steps") if manifest else None,
        "saved": datetime.fromtimestamp(saved or path.stat().st_mtime, UTC).isoformat(),
        "bytes": sum(entry.stat().st_size for entry in os.scandir(path)),
        "tags": sorted(name for name, tagged in store.tags().items() if tagged == version),
        "damage": damage,
    }


def _print(rows: list[dict[str, Any]]) -> None:
    head = ("version", "steps", "saved", "size", "tags", "state")
    table = [head, *(_cells(row) for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(head))]
    for cells in table if rows else []:
        numbers = (cell.rjust(width) for cell, width in zip(cells[:4], widths[:4], strict=True))
        print("  ".join([*numbers, cells[4].ljust(widths[4]), cells[5]]).rstrip())


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    steps = "-" if row["steps"] is None else f"{row['steps']:,}"
    when = datetime.fromisoformat(row["saved"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    state = f"damaged: {row['damage']}" if row["damage"] else "whole"
    return str(row["version"]), steps, when, _size(row["bytes"]), " ".join(row["tags"]), state


def _size(count: float) -> str:
    """`812 bytes`, `3.4 MB`."""
    unit = 0
    while count >= 1000 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.{1 if unit else 0}f} {_UNITS[unit]}"
