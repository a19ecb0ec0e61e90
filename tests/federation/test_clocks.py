"""Ends whose clocks differ by an hour: no time of day is part of the protocol, and certificates are good from a day before."""

from __future__ import annotations

import datetime
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.federation.ends import End, Federation

SOURCE = Path(__file__).with_name("shifted_clock.c")


def hours_off(end: End) -> float:
    """By how much the newest line that it wrote is not of now."""
    said = datetime.datetime.fromisoformat(end.lines("events.jsonl")[-1]["time"])
    return (said - datetime.datetime.now(datetime.UTC)).total_seconds() / 3600


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_clocks_differ_by_an_hour(tmp_path: Path) -> None:
    """One is behind, one ahead: both take part, and come back after the parent was killed."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler, to make a clock that is off: apt-get install gcc")
    library = tmp_path / "shifted_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True, timeout=60)
    made = Federation(tmp_path, "anna", "bert")

    def off(seconds: int, argv: list[str]) -> list[str]:
        return ["env", f"LD_PRELOAD={library}", f"CLOCK_SHIFT={seconds}", *argv]

    try:
        parent = made.parent()
        anna = made.child("anna", wrap=lambda argv: off(3600, argv))
        bert = made.child("bert", wrap=lambda argv: off(-3600, argv))
        for name in ("anna", "bert"):
            parent.says(f"{name} joined", seconds=120)
        assert hours_off(anna) == pytest.approx(1.0, abs=0.1)
        assert hours_off(bert) == pytest.approx(-1.0, abs=0.1)
        parent.reaches(parent.version + 6)
        parent.kill()
        for child in (anna, bert):
            child.says("lost the parent", seconds=40)
        again = made.parent("--resume")
        again.says("anna joined", count=2, seconds=120)
        again.says("bert joined", count=2, seconds=120)
        again.reaches(again.version + 4, 120)
        assert not again.said("strikes:")
        assert {child.process.poll() for child in (anna, bert)} == {None}
    finally:
        made.close()
