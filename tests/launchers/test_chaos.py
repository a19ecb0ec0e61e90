"""A short chaos run: `tools/chaos.py` finds no hang, no leak and no missing row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "chaos"


@pytest.mark.timeout(280)
@pytest.mark.parametrize("case", ["dqn, 2 buffers"])
def test_a_few_faults(case: str) -> None:
    argv = [sys.executable, str(SCRIPT), "--seconds", "1", "--run", "8", "--every", "3", "--case", case, "--seed", "3"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=270)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no hangs, no leaks, all rows accounted for" in done.stdout
    assert " ok " in done.stdout, "at least one fault struck"
