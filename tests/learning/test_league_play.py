"""The recipes of leagues to their bars: how exploitable the mixture of members is, computed exactly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import shoal
from shoal.api.experiment import load_experiment
from shoal.recipes import find

SCRIPT = Path(__file__).parent.parent.parent / "benchmarks/exploitability.py"
BARS = {"rps-league": 0.02, "kuhn-psro": 0.1, "leduc-ppo": 0.5}
"""Of the last mixture, or of the last version where there is no league; who draws any action alike: 0.08, 0.46 and 2.37."""


def mixtures(folder: Path) -> list[float]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), "--json"], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)[0]
    return [each["exploitability"] for each in found["mixtures"]] if "mixtures" in found else [found["last"]]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", BARS)
def test_a_league_comes_near_the_equilibrium(tmp_path: Path, recipe: str) -> None:
    folder = shoal.train(load_experiment(find(recipe), []), root=tmp_path, on="inline", quiet=True).folder
    found = mixtures(folder)
    print(recipe, " ".join(f"{each:.4f}" for each in found))
    assert found[-1] <= BARS[recipe]


def test_a_short_league_is_measured(tmp_path: Path) -> None:
    """The script prints what it should of a run that hardly learned: equal actions are as exploitable as is known."""
    quick = [
        "stop.steps=3_000",
        "env.num_envs=32",
        "algorithm.minibatch=128",
        "league.freeze.steps=1_000",
        "league.games=40",
    ]
    folder = shoal.train(load_experiment(find("kuhn-psro"), quick), root=tmp_path, on="inline", quiet=True).folder
    found = mixtures(folder)
    assert found[0] == pytest.approx(11 / 24, abs=0.01)
    assert len(found) >= 2
