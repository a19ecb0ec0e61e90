"""The recipes of leagues to their bars: how exploitable the mixture of members is, computed exactly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import load_experiment
from shoal.recipes import find

SCRIPT = Path(__file__).parent.parent.parent / "benchmarks/exploitability.py"
BARS = {"rps-league": 0.01, "kuhn-psro": 0.05, "leduc-psro": 0.5, "leduc-ppo": 0.5}
"""Of the last mixture, or of the last version where there is no league; who draws any action alike: 0.08, 0.46 and 2.37."""
EQUILIBRIUM = (1 / 16, 10 / 16, 5 / 16)


def measured(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), "--json"], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)[0]
    return found


def mixtures(found: dict[str, Any]) -> list[float]:
    return [each["exploitability"] for each in found["mixtures"]] if "mixtures" in found else [found["last"]]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("recipe", BARS)
def test_a_league_comes_near_the_equilibrium(tmp_path: Path, recipe: str) -> None:
    folder = shoal.train(load_experiment(find(recipe), []), root=tmp_path, on="inline", quiet=True).folder
    found = measured(folder)
    print(recipe, " ".join(f"{each:.4f}" for each in mixtures(found)))
    assert mixtures(found)[-1] <= BARS[recipe]
    if recipe == "rps-league":
        assert all(shares == pytest.approx(EQUILIBRIUM, abs=0.03) for shares in found["plays"])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nobody_beats_the_tic_tac_toe_of_a_league(tmp_path: Path, seed: int) -> None:
    """What a best answer earns from greedy play is the worst of all replies: 0 is no loss, whatever the other does."""
    wanted = load_experiment(find("tictactoe-league"), [f"seed={seed}"])
    folder = shoal.train(wanted, root=tmp_path, on="inline", quiet=True).folder
    assert measured(folder)["greedy"] == 0.0


@pytest.mark.slow
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
    found = measured(folder)
    assert mixtures(found)[0] == pytest.approx(11 / 24, abs=0.01)
    assert len(mixtures(found)) >= 2
