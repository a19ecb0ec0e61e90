"""What Weights & Biases wrote offline, read back: a log of LevelDB's form whose records are W&B's own protobuf messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

BLOCK, HEADER = 32768, 7
FULL, FIRST, _MIDDLE, LAST = 1, 2, 3, 4


def records(path: Path) -> Iterator[Record]:
    """All that are whole."""
    data, at, open_ = path.read_bytes(), HEADER, b""
    assert data[:4] == b":W&B"
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        part = data[at + HEADER : at + HEADER + size]
        if len(part) < size or kind == 0:
            return
        at += HEADER + size
        open_ = part if kind in (FULL, FIRST) else open_ + part
        if kind in (FULL, LAST):
            yield Record.FromString(open_)


def parts(run: Path) -> list[Path]:
    """The files of a run folder, oldest first."""
    return sorted((run / "wandb").glob("*/*.wandb"))


def rows(path: Path) -> list[dict[str, Any]]:
    """The history of one file, with W&B's own step as `_step`."""
    found = []
    for record in records(path):
        if record.HasField("history"):
            row: dict[str, Any] = {"_step": record.history.step.num}
            for item in record.history.item:
                first, *inner = item.nested_key or [item.key]
                value = json.loads(item.value_json)
                row[first] = {**row.get(first, {}), "/".join(inner): value} if inner else value
            found.append(row)
    return found


def described(path: Path) -> Any:
    """The last that W&B says of the run itself."""
    return [record.run for record in records(path) if record.HasField("run")][-1]
