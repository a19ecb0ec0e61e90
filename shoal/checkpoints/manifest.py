"""The manifest of a checkpoint: what its folder must hold, down to the last bit.

`manifest.json` names format, version, counters and time of day; of every file size and SHA-256, and dtype and shape of its tensors.
It proves itself by a checksum, and by being written in exactly one way: any other bytes are damage. A Shoal that writes format
k + 1 reads format k: `_UPGRADES` brings an older manifest to today's shape, one format at a time.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from shoal.base.errors import InputError
from shoal.base.files import NAME

FORMAT = 2
MANIFEST = "manifest.json"
STATE = "state.safetensors"


class DamageError(Exception):
    """A checkpoint is not what was saved. Its text names the file and what is wrong with it."""


def build(version: int, meta: dict[str, Any], files: dict[str, dict[str, Any]], run: str = "") -> dict[str, Any]:
    """The manifest of `files`: name -> size, sha256 and tensors. `run`: which run it is of."""
    return {
        "format": FORMAT,
        "version": version,
        "saved": int(time.time()),
        "meta": json.loads(json.dumps(meta)),  # as a reader will see it: keys are text, tuples are lists
        "files": files,
        **({"run": run} if run else {}),
    }


def sealed(document: dict[str, Any]) -> bytes:
    """The one way to write a document: by sorted keys, before which its checksum comes, that of all the others."""
    if min(document, default="") <= "checksum":
        raise ValueError("the checksum has to come first")
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return _seal(checksum) + text[1:].encode()


def _seal(checksum: str) -> bytes:
    """How a sealed document begins."""
    return f'{{\n "checksum": "{checksum}",'.encode()


def proven(raw: bytes, name: str) -> dict[str, Any]:
    """The document in `raw` without its checksum; DamageError names the file if a bit of it is another."""
    try:
        document = json.loads(raw)
        checksum = document.pop("checksum")
        seal = _seal(checksum)
        text = b"{" + raw[len(seal) :]
        unchanged = raw.startswith(seal) and hashlib.sha256(text).hexdigest() == checksum
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        unchanged = False
    if not unchanged:
        raise DamageError(f"{name} was changed or torn since it was written")
    return document


def read(raw: bytes, version: int) -> dict[str, Any]:
    """The manifest in `raw`, which must be that of `version`, bit for bit; in today's shape, whatever its format."""
    manifest = proven(raw, MANIFEST)
    written = manifest.get("format")
    if type(written) is int and written > FORMAT:
        raise InputError(
            f"checkpoint {version} is of format {written}, this Shoal reads up to {FORMAT}: use a newer Shoal"
        )
    try:
        if type(written) is not int or written < 1:
            raise ValueError
        for older in range(written, FORMAT):
            manifest = _UPGRADES[older](manifest)
        _Manifest.model_validate(manifest)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DamageError(f"{MANIFEST} is none of Shoal's") from None
    if manifest["version"] != version:
        raise DamageError(f"{MANIFEST} is that of version {manifest['version']}: the folder was renamed")
    return manifest


# ---------------------------------------------------------------- its shape: a checksum is no proof that Shoal wrote it


class _Tensor(BaseModel):
    dtype: str
    shape: list[Annotated[int, Field(ge=0)]]


class _File(BaseModel):
    size: int
    sha256: str
    tensors: dict[str, _Tensor]


class _Manifest(BaseModel):
    model_config = ConfigDict(strict=True)

    version: int
    run: str = ""
    saved: Annotated[int, Field(ge=0, lt=1 << 37)] | None
    meta: dict[str, Any]
    files: dict[Annotated[str, Field(pattern=f"^{NAME.pattern}$")], _File]

    @model_validator(mode="after")
    def _has_state(self) -> Self:
        if STATE not in self.files or type(self.meta.get("steps", 0)) is not int:
            raise ValueError
        return self


# ---------------------------------------------------------------- older formats


def _from_1(manifest: dict[str, Any]) -> dict[str, Any]:
    """Format 1 had one file, named its tensors beside it, and did not say when it was written."""
    tensors = manifest.pop("tensors")
    files = {STATE: {**manifest["files"][STATE], "tensors": tensors}}
    return {**manifest, "format": 2, "saved": None, "files": files}


_UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1}
