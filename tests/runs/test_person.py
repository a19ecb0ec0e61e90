"""A person at the keyboard: moves through a pipe, wrong ones asked again, the end of the input ends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment
from shoal.base.errors import InputError
from shoal.runs.play import Person, Score, play


def trained(root: Path, env: str, **more: Any) -> str:
    values = {"env": {"id": env, "num_envs": 4}, "algorithm": {"unroll": 8}, "stop": {"updates": 1}, **more}
    return str(shoal.train(Experiment.parse(values), root=root, on="inline", quiet=True).folder)


class Typed(Person):
    """Somebody who types what was written down, and reads along."""

    def __init__(self, *moves: str) -> None:
        self.moves, self.lines = list(moves), list[str]()
        super().__init__(self._next, self.lines.append)

    def _next(self, prompt: str) -> str:
        self.lines.append(prompt)
        if not self.moves:
            raise EOFError
        return self.moves.pop(0)


def test_tic_tac_toe(tmp_path: Path) -> None:
    run = trained(tmp_path, "shoal/tic-tac-toe")
    person = Typed("10", "5", "5", *(str(cell) for _ in range(4) for cell in range(1, 10)))
    score = play(run, agent="player_0", games=1, person=person)
    text = "\n".join(person.lines)
    assert "1 2 3\n4 5 6\n7 8 9\nyou play x" in text
    assert "your move (1, 2, 3, 4, 5, 6, 7, 8, 9): " in text
    assert "'10' is no move here" in text
    assert text.count("'5' is no move here") == 1, "the cell is taken now"
    assert len(score.earned) == 1
    assert any(line.startswith(("you win", "you lose", "a draw")) for line in person.lines)


@pytest.mark.parametrize("env", ["shoal/kuhn", "shoal/leduc", "shoal/goofspiel", "shoal/connect-four", "shoal/rps"])
def test_every_game_can_be_played_from_both_sides(tmp_path: Path, env: str) -> None:
    """Whoever always types all moves in turn comes to an end."""
    from shoal.api.experiment import EnvConfig
    from shoal.envs import make_env

    names = make_env(EnvConfig(id=env), 1).action_names("player_0")
    assert names is not None
    run = trained(tmp_path, env)
    person = Typed(*(name for _ in range(200) for name in reversed(names)))
    score = play(run, games=4, stochastic=True, person=person)
    assert len(score.earned) == 4
    assert all(own == -other for own, other in score.earned)
    begun = [line.split(",")[0] for line in person.lines if line.startswith("game ")]
    assert begun == [f"game {number}: you are player_{(number - 1) % 2}" for number in (1, 2, 3, 4)]


def test_what_is_seen_of_poker(tmp_path: Path) -> None:
    run = trained(tmp_path, "shoal/leduc")
    person = Typed(*["c"] * 40)
    play(run, agent="player_0", games=3, person=person)
    assert any(line.startswith("your card: ") and "open: " in line for line in person.lines)
    assert person.lines[1].startswith("your card: ")
    assert person.lines[1].endswith("moves: none yet")


def test_the_end_of_the_input_ends_it(tmp_path: Path) -> None:
    run = trained(tmp_path, "shoal/kuhn")
    words = [sys.executable, "-m", "shoal.cli", "play", run, "--as", "player_0", "--seed", "3"]
    done = subprocess.run(words, input="bet\nnothing\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "your card: " in done.stdout
    assert "is no move here; choose from: bet, pass" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 games: ")


def test_moves_are_found_by_their_beginning() -> None:
    person = Typed("r", "rock-", "pa")
    assert person.choose(["rock", "raise", "paper"], [0, 1, 2]) == 2
    assert "several begin so" in person.lines[1]
    assert Typed("1").choose(["1", "10"], [0, 1]) == 0


def test_the_score() -> None:
    assert Score([(1.0, -1.0), (-2.0, 2.0), (0.0, 0.0)]).summary() == ("3 games: 1 won, 1 drawn, 1 lost; you earned -1")


def test_what_cannot_be_played(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such agent"):
        play(trained(tmp_path, "shoal/kuhn"), agent="player_7", person=Typed())
    with pytest.raises(InputError, match="one agent"):
        play(trained(tmp_path, "shoal/cut"), person=Typed())
