"""The recipe `pong`, as a user runs it: 18 points more than the game's own player, within an hour of two cores."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal
from shoal.api.experiment import load_experiment
from shoal.recipes import find

HOUR = 3600.0


@pytest.mark.slow
@pytest.mark.timeout(2 * HOUR)
def test_pong_is_won_within_an_hour(tmp_path: Path) -> None:
    pytest.importorskip("ale_py", reason='pong needs its extra: pip install "shoal[atari]"')
    outcome = shoal.train(load_experiment(find("pong"), [f"stop.seconds={HOUR:g}"]), root=tmp_path)
    assert outcome.reason.startswith("stop.return = 18 reached"), outcome.reason
    assert outcome.scores is not None
    print(f"pong: greedy {outcome.scores.mean:.1f} after {outcome.steps:,} steps, {outcome.seconds / 60:.1f} minutes")
    assert outcome.scores.mean >= 18
