"""Authorities and certificates for tests, good and bad."""

from __future__ import annotations

import datetime
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from shoal.federation import credentials as module
from shoal.federation.credentials import Credentials

ADDRESSES = ["localhost", "127.0.0.1"]


def authority(folder: Path, *children: str) -> tuple[Credentials, dict[str, Credentials]]:
    """A parent's folder, and one for each child, elsewhere."""
    made = Credentials(folder / "credentials")
    made.init(ADDRESSES)
    found = {}
    for child in children:
        shutil.copytree(made.issue(child, ADDRESSES), folder / child)
        found[child] = Credentials(folder / child)
    return made, found


def expired(folder: Path, parent: Credentials, monkeypatch: pytest.MonkeyPatch) -> Credentials:
    """One of the same authority, on its list, that ended yesterday."""
    real = module._builder

    def old(name: str, key: Any, issuer: Any, days: int) -> Any:
        now = datetime.datetime.now(datetime.UTC)
        builder = real(name, key, issuer, days)
        builder._not_valid_before = (now - datetime.timedelta(days=9)).replace(tzinfo=None)
        builder._not_valid_after = (now - datetime.timedelta(days=1)).replace(tzinfo=None)
        return builder

    with monkeypatch.context() as patch:
        patch.setattr(module, "_builder", old)
        shutil.copytree(parent.issue("late", ADDRESSES), folder / "late")
    return Credentials(folder / "late")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
