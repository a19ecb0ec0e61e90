"""A self-play run is evaluated against others than itself: beside training, by hand, and when it is recorded."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import shoal
from shoal.api.experiment import Experiment
from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore
from shoal.cli.app import app
from shoal.runs.rollout import rollout
from tests.launchers.processes import nothing_left

EPISODES = 8


def experiment(**sections: Any) -> Experiment:
    past = {"of": "learner", "every": 1, "keep": 3, "spread": True}
    tree: dict[str, Any] = {
        "env": {"id": "shoal/connect-four", "num_envs": 8}, "model": {"name": "mlp", "hidden": [8]},
        "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 32}, "deal": "shuffled",
        "agents": {"player_0": "learner", "*": "rival"}, "policies": {"learner": {}, "rival": {"past": past}},
        "evaluation": {"every": "2 updates", "episodes": EPISODES}, "stop": {"updates": 6}, "name": "four",
        "placement": {"actors": 1}, "log": {"tensorboard": False},
    }  # fmt: skip
    return Experiment.parse({**tree, **sections})


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [event for event in found if event["kind"] == kind]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shoal.train(experiment(), root=tmp_path_factory.mktemp("runs"), on="inline", quiet=True).folder


def test_beside_training_it_meets_random_play_and_its_past(trained: Path) -> None:
    scored = events(trained, "evaluation")
    assert {2, 6} <= {event["version"] for event in scored} <= {2, 4, 6}
    for event in scored:
        assert list(event["against"]) == ["random", "past"]
        for tally in event["against"].values():
            assert tally["wins"] + tally["draws"] + tally["losses"] == EPISODES
            assert tally["ci_low"] <= tally["win_rate"] <= tally["ci_high"]
        assert event["episodes"] == len(event["returns"]) == 2 * EPISODES
        means = [tally["mean_return"] for tally in event["against"].values()]
        assert event["mean_reward"] == pytest.approx(np.mean(means))
    best = max(scored, key=lambda event: (event["mean_reward"], -event["version"]))
    assert CheckpointStore(trained / "checkpoints").tags() == {"best": best["version"]}
    rows = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    rates = [row["eval/against/random/win_rate"] for row in rows if "eval/against/random/win_rate" in row]
    assert rates[-1] == scored[-1]["against"]["random"]["win_rate"]


def test_with_processes_too(tmp_path: Path, trained: Path) -> None:
    with nothing_left():
        folder = shoal.train(experiment(), root=tmp_path, on="local", quiet=True).folder
    last, other = events(folder, "evaluation")[-1], events(trained, "evaluation")[-1]
    assert last["against"]["random"] == other["against"]["random"], "a score is a function of the version"
    assert sum(last["against"]["past"][word] for word in ("wins", "draws", "losses")) == EPISODES


def test_no_version_is_the_best_by_a_score_against_itself(tmp_path: Path) -> None:
    """One policy for both players, and nobody named: every return is that of a game against itself."""
    alone = experiment(agents={}, policies={}, deal="fixed")
    folder = shoal.train(alone, root=tmp_path, on="inline", quiet=True).folder
    assert CheckpointStore(folder / "checkpoints").tags() == {}
    assert all(event["mean_reward"] == 0.0 and not event["best"] for event in events(folder, "evaluation"))
    notes = [event["text"] for event in events(folder, "note")]
    assert sum("the returns cancel out: name opponents, evaluation.against: [random]" in text for text in notes) == 1
    assert sum("nothing is random: set evaluation.openings: 4" in text for text in notes) == 1
    scores, _ = shoal.evaluate(str(folder), episodes=4, against=["past"])
    assert {player for match in scores.matches for player in match.players.values()} >= {"player", "past@4"}


@pytest.mark.parametrize("on", ["inline", "local"])
def test_a_return_is_confirmed_against_others_than_itself(tmp_path: Path, on: str) -> None:
    """Without evaluations: as they would be played, and by each version against the past that there is then."""
    goal = {"return": -0.5, "episodes": EPISODES, "updates": 30}
    with nothing_left():
        outcome = shoal.train(experiment(evaluation=None, stop=goal), root=tmp_path, on=on, quiet=True)
    assert outcome.reason.startswith(f"stop.return = -0.5 reached: greedy mean {outcome.scores.mean:.1f} over")
    assert {name: tally.matches for name, tally in outcome.scores.tallies.items()} == dict.fromkeys(
        ["random", "past"], EPISODES
    )
    players = {player for match in outcome.scores.matches for player in match.players.values()}
    assert {"learner", "random", "past@0"} <= players
    again, _ = shoal.evaluate(str(outcome.folder), episodes=EPISODES, against=["random"])
    assert list(again.tallies) == ["random"]


def test_by_hand(trained: Path) -> None:
    scores, version = shoal.evaluate(str(trained), episodes=6)
    assert version == 6
    assert {name: tally.matches for name, tally in scores.tallies.items()} == {"random": 6, "past": 6}
    players = {player for match in scores.matches for player in match.players.values()}
    assert players == {"learner", "random", "past@0", "past@4"}, "as the checkpoint holds them, but for itself"
    best = CheckpointStore(trained / "checkpoints").tags()["best"]
    for which, same in {"@6": True, f"@{best}": best == 6, "@best": best == 6, ":learner@latest": True}.items():
        scores, _ = shoal.evaluate(str(trained), episodes=4, against=[f"{trained}{which}"])
        (tally,) = scores.tallies.values()
        assert not same or tally.wins == tally.losses, "equal openings from both sides, by equal players"
    with pytest.raises(InputError, match="holds no version before 2"):
        shoal.evaluate(str(trained), checkpoint="2", overrides=["policies.rival.past=null"], against=["past"])


def test_other_seeds_are_other_games(trained: Path) -> None:
    """Also where nothing but the opponent draws at random."""
    one, again, other = (
        shoal.evaluate(str(trained), episodes=10, against=["random"], openings=0, seed=seed)[0] for seed in (1, 1, 2)
    )
    assert one.lengths == again.lengths
    assert one.lengths != other.lengths


def test_the_command(trained: Path) -> None:
    command = ["evaluate", str(trained), "--episodes", "4"]
    result = CliRunner().invoke(app, [*command, "--against", "random", "--against", "self"])
    assert "against random: " in result.stdout
    assert "won, 0 drawn," in result.stdout
    assert "win rate 0.50 (95 % interval 0.15 to 0.85)" in result.stdout
    assert not result.stderr
    document = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert list(document["against"]) == ["random", "past"]
    assert document["against"]["random"].keys() == {
        "wins", "draws", "losses", "win_rate", "ci_low", "ci_high", "mean_return"
    }  # fmt: skip
    result = CliRunner().invoke(app, [*command, "--against", "self", "--openings", "0"])
    assert "equal players played one game again and again, nothing is random: add --openings 4" in result.stderr


def games(folder: Path) -> set[bytes]:
    found = set()
    for path in folder.glob("episode-*.npz"):
        with np.load(path, allow_pickle=False) as arrays:
            found.add(arrays["player/observation"].tobytes())
    return found


def test_recorded_games_differ_when_asked_for_and_name_their_players(trained: Path, tmp_path: Path) -> None:
    scores, folder = rollout(str(trained), episodes=6, out=tmp_path / "same")
    assert len(games(folder)) == 1
    assert scores.repeated
    for options in ({"openings": 4}, {"against": "random"}, {"stochastic": True}):
        scores, folder = rollout(str(trained), episodes=6, out=tmp_path / "other", **options)  # type: ignore[arg-type]
        assert len(games(folder)) >= 4, options
        assert not scores.repeated
    _, folder = rollout(str(trained), episodes=4, against="past")
    assert folder.name == "6-0-against-past"
    with open(folder / "episodes.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(row["player/player_0"], row["player/player_1"]) for row in rows] == [
        ("learner", "past@0"), ("past@0", "learner"), ("learner", "past@4"), ("past@4", "learner"),
    ]  # fmt: skip
    assert [row["return/past@4"] for row in rows[:2]] == ["", ""]
    summary = json.loads((folder / "rollout.json").read_text())
    assert summary["policies"] == ["learner", "past@0", "past@4"]
    assert (summary["against"], summary["openings"]) == ("past", 2)
