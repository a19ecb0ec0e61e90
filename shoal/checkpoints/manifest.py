"""The manifest of a checkpoint: what its folder must hold, down to the last bit.

`manifest.json` names format, version and counters, size and SHA-256 of every file, dtype and shape of every tensor.
It proves itself by a checksum, and by being written in exactly one way: any other bytes are damage.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
MANIFEST = "manifest.json"
STATE = "state.safetensors"


class DamageError(Exception):
    """A checkpoint is not what was saved. Its text names the file and what is wrong with it."""


def build(version: int, meta: dict[str, Any], tensors: dict[str, Tensor], state: bytes) -> dict[str, Any]:
    """The manifest of `tensors`, serialised as `state`."""
    manifest = {
        "format": FORMAT,
        "version": version,
        "meta": json.loads(json.dumps(meta)),  # as a reader will see it: keys are text, tuples are lists
        "files": {STATE: {"size": len(state), "sha256": hashlib.sha256(state).hexdigest()}},
        "tensors": describe(tensors),
    }
    return {**manifest, "checksum": _checksum(manifest)}


def describe(tensors: dict[str, Tensor]) -> dict[str, dict[str, Any]]:
    """Name -> dtype and shape."""
    return {
        name: {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}
        for name, tensor in tensors.items()
    }


def render(manifest: dict[str, Any]) -> bytes:
    """The one way to write a manifest."""
    return (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()


def read(raw: bytes, version: int) -> dict[str, Any]:
    """The manifest in `raw`, which must be that of `version`, bit for bit."""
    try:
        manifest = json.loads(raw)
        unchanged = render(manifest) == raw and manifest.pop("checksum") == _checksum(manifest)
    except (ValueError, AttributeError, KeyError, RecursionError):
        unchanged = False
    if not unchanged:
        raise DamageError(f"{MANIFEST} was changed or torn since it was written")
    if manifest["format"] != FORMAT:
        raise DamageError(f"{MANIFEST} is of format {manifest['format']}, this Shoal reads {FORMAT}: use a newer one")
    if manifest["version"] != version:
        raise DamageError(f"{MANIFEST} is that of version {manifest['version']}: the folder was renamed")
    return manifest


def check_file(manifest: dict[str, Any], name: str, raw: bytes) -> None:
    """Raise DamageError unless `raw` is what was saved as `name`."""
    entry = manifest["files"][name]
    if len(raw) != entry["size"]:
        raise DamageError(f"{name} has {len(raw):,} bytes instead of {entry['size']:,}")
    if hashlib.sha256(raw).hexdigest() != entry["sha256"]:
        raise DamageError(f"{name} was changed since it was written: its SHA-256 is another")


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(render(manifest)).hexdigest()
