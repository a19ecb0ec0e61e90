"""Tournaments between players of real runs: the same whatever the number of processes, and what cannot meet is told in a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import shoal
from shoal.api.experiment import Experiment
from shoal.base.errors import InputError, ShoalError
from shoal.cli.app import app
from shoal.runs.tournament import document, play_tournament
from tests.workers.test_league import experiment

SCRIPTS = """
import numpy as np

def bold(observation, mask, noise):
    return np.ones(len(noise), np.int64)

def timid(observation, mask, noise):
    return np.zeros(len(noise), np.int64)

def hang(observation, mask, noise):
    import time
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A league of Kuhn poker with some members, and players by rule."""
    root = tmp_path_factory.mktemp("tournament")
    (root / "scripts.py").write_text(SCRIPTS)
    return shoal.train(experiment(), root=root / "runs", on="inline", quiet=True, trial="one").folder


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parents[2])


def test_everyone_meets_everyone(folder: Path) -> None:
    players = [str(folder), f"{folder}:main-0", "random", "scripts.py:bold", "scripts.py:timid"]
    found = document(play_tournament(players, games=64, stochastic=True, openings=0, processes=2))
    assert found["games"] == 640
    rows = {row["player"]: row for row in found["players"]}
    assert set(rows) == set(players)
    assert sum(row["rating"] for row in rows.values()) == pytest.approx(0.0, abs=1e-6)
    names = [row["player"] for row in found["players"]]
    bold, timid = names.index("scripts.py:bold"), names.index("scripts.py:timid")
    assert found["payoffs"][bold][timid] == 1.0, "who always passes loses the ante to who always bets"
    assert found["payoffs"][timid][bold] == -1.0
    assert rows["scripts.py:bold"]["rating"] > rows["scripts.py:timid"]["rating"]
    assert found["payoffs"][0][0] is None
    for i, j in ((0, 1), (1, 3)):
        assert found["payoffs"][i][j] == pytest.approx(-found["payoffs"][j][i])


def test_the_number_of_processes_does_not_matter(folder: Path) -> None:
    players = [str(folder), f"{folder}:main-1", "random"]

    def found(processes: int, seed: int) -> dict[str, Any]:
        return document(play_tournament(players, games=80, stochastic=True, seed=seed, processes=processes))

    many = found(3, seed=5)
    assert found(1, seed=5) == many
    assert found(1, seed=6)["payoffs"] != many["payoffs"]


def test_the_command(folder: Path) -> None:
    words = ["tournament", str(folder), "random", "--games", "40", "--stochastic", "--until-separated"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["player", "rating", "95", "%", "points", "games"]
    assert {line.split()[0] for line in lines[1:3]} == {str(folder), "random"}
    assert "what each earns on average against the others" in lines
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["env"] == "shoal/kuhn"


def test_games_that_repeat_are_told(folder: Path) -> None:
    connect = Experiment.parse(
        {"env": {"id": "shoal/tic-tac-toe", "num_envs": 4}, "algorithm": {"unroll": 8}, "stop": {"updates": 1}}
    )
    run = shoal.train(connect, root=folder.parents[1], on="inline", quiet=True, trial="board").folder
    players = [str(run), "scripts.py:first"]
    Path("scripts.py").write_text(SCRIPTS + "\ndef first(observation, mask, noise):\n    return mask.argmax(1)\n")
    assert play_tournament(players, games=8, openings=0).repeated
    with pytest.raises(InputError, match="they cannot meet"):
        play_tournament([str(run), str(folder)])


@pytest.mark.parametrize(
    ("players", "words"),
    [
        (["random"], "between 2 and 256"),
        (["random", "random"], "named 2 times"),
        (["random", "past"], "nobody in particular"),
        (["random", "scripts.py:bold"], "none of the players is a run"),
        (["RUN", "nobody"], "there is no such run"),
        (["RUN", "RUN:main-77"], "main"),
        (["RUN", "scripts.py:cold"], "has no 'cold'"),
    ],
)
def test_what_cannot_be_played(folder: Path, players: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        play_tournament([name.replace("RUN", str(folder)) for name in players])


def test_a_player_that_hangs_is_given_up(folder: Path) -> None:
    config = folder / "config.yaml"
    before = config.read_text()
    config.write_text(before.replace("timeout: 60.0", "timeout: 0.5"))
    assert config.read_text() != before
    try:
        with pytest.raises(ShoalError, match=r"longer than env\.timeout = 0\.5 s"):
            play_tournament([str(folder), "scripts.py:hang"], games=2)
    finally:
        config.write_text(before)
