"""One thread, as in every run; run folders of their own."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.dashboard.browsing import browser, dashboard, visit

__all__ = ["browser", "dashboard", "visit"]
"""Here, so that a session has one browser, whoever looks."""


def _hear_signals() -> None:
    """A shell's background and `nohup` have them ignored, by all that is started here too; many tests send them."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


_hear_signals()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
