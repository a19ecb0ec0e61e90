"""The settings of a run, out of its `config.yaml`: as data. Nothing that is named in there is imported."""

from __future__ import annotations

from typing import Any

import yaml

from shoal.analysis.trials import flat
from shoal.dashboard.below import Root

LARGEST = 1 << 20
"""Bytes of a file of settings."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_settings(root: Root, name: str) -> dict[str, Any]:
    """With dotted keys; empty where the file is none of Shoal's. Ten times as quick as what checks every key."""
    with root.file(*name.split("/"), "config.yaml") as file:
        raw = file.read(LARGEST + 1)
    try:
        if len(raw) > LARGEST or (b"*" in raw and _has_alias(raw)):
            return {}
        values = yaml.load(raw, _LOADER)
        return {str(key): value for key, value in flat(values)} if isinstance(values, dict) else {}
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return {}


def _has_alias(raw: bytes) -> bool:
    """A few lines of them can stand for more than any memory holds."""
    return any(isinstance(token, yaml.AliasToken) for token in yaml.scan(raw, _LOADER))


def nested(settings: dict[str, Any], section: str) -> dict[str, Any]:
    """One section of them, without its name in front."""
    at = f"{section}."
    return {key.removeprefix(at): value for key, value in settings.items() if key.startswith(at)}
