"""`shoal demo`: what a newcomer sees first."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest

from shoal.base.errors import InputError, ShoalError
from shoal.cli import demo

pytest.importorskip("mpe2", reason="the extra `mpe`")


def test_a_short_one_shows_everything_and_says_that_it_is_not_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "EPISODES", 4)
    monkeypatch.setattr(demo, "VIDEOS", 1)
    with pytest.raises(ShoalError, match=r"earned -\d+\.\d per agent, not -11"):
        demo.run(["stop.steps=6_400"], trial="short", seed=2)
    said = capsys.readouterr().out
    named = [Path(line.split()[-1]) for line in said.splitlines() if line.startswith(("video", "learning curve"))]
    assert [path.suffix for path in named] == [".mp4", ".png"]
    assert all(path.stat().st_size > 5_000 for path in named)
    assert "per agent -" in said
    assert "(random -" in said
    assert len(said.partition("next:\n")[2].splitlines()) == 3


def test_what_is_missing_is_said_before_anything_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name in ("mpe2", "av") else found(name, *more)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(InputError, match=r"pip install 'shoal\[mpe,video\]'"):
        demo.run([], trial=None, seed=None)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_team_is_there_within_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two quiet cores."""
    monkeypatch.chdir(tmp_path)
    before = time.monotonic()
    demo.run([], trial="whole", seed=None)
    assert time.monotonic() - before < 60
