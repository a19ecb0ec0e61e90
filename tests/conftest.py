"""One thread, as in every run; run folders of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dashboard.browsing import browser, dashboard, visit

__all__ = ["browser", "dashboard", "visit"]
"""Here, so that a session has one browser, whoever looks."""


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
