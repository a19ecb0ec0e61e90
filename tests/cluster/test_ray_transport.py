"""The transport between machines keeps the promises of every transport."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_has_ray")
def test_rings_mailboxes_and_tallies_through_the_conformance_suite() -> None:
    script = Path(__file__).with_name("far_transport.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["rings", "mailboxes", "controller", "tallies"]
