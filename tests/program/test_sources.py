"""Policies of other runs: which run, which of its policies, which of its checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment
from shoal.api.program import Program
from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore
from shoal.program.expand import expand, parse_source


def experiment(**sections: Any) -> Experiment:
    tree: dict[str, Any] = {
        "env": {"id": "tests.launchers.duel:pair", "num_envs": 4}, "model": {"name": "mlp", "hidden": [8]},
        "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 16}, "checkpoint": {"every": "1 updates", "keep": 9},
        "stop": {"updates": 3}, "log": {"tensorboard": False}, "name": "source", "placement": {"actors": 1},
    }  # fmt: skip
    return Experiment.parse({**tree, **sections})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("runs/a/b", ("runs/a/b", "", "latest")),
        ("runs/a/b@best", ("runs/a/b", "", "best")),
        ("runs/a/b:hunters@12", ("runs/a/b", "hunters", "12")),
        ("/mnt/me@site/a/b", ("/mnt/me@site/a/b", "", "latest")),
        ("/mnt/me@site/a/b@best", ("/mnt/me@site/a/b", "", "best")),
    ],
)
def test_how_they_are_named(text: str, parts: tuple[str, str, str]) -> None:
    assert parse_source(text) == parts


def test_a_tag_or_a_version_of_another_run(tmp_path: Path) -> None:
    outcome = shoal.train(experiment(), root=tmp_path, on="inline", quiet=True)
    CheckpointStore(outcome.folder / "checkpoints").tag("best", 2)
    roles = {"player_0": "learner", "player_1": "rival"}
    for frozen in (True, False):
        for which, version in {"": 3, "@latest": 3, "@best": 2, "@1": 1, ":player@best": 2}.items():
            policies = {"learner": {}, "rival": {"from": f"{outcome.folder}{which}", "frozen": frozen}}
            source = expand(experiment(agents=roles, policies=policies)).policies["rival"].source
            assert source is not None
            assert source.version == version
    for which, words in {
        "@bset": "did you mean 'best'",
        "@77": "there is no checkpoint 77",
        ":nobody@best": "player",
    }.items():
        with pytest.raises(InputError, match="policies.rival.from = ") as caught:
            expand(experiment(agents=roles, policies={"learner": {}, "rival": {"from": f"{outcome.folder}{which}"}}))
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_version_of_another_run_is_an_opponent_and_part_of_the_program(tmp_path: Path) -> None:
    outcome = shoal.train(experiment(), root=tmp_path, on="inline", quiet=True)
    name = f"{outcome.folder}@2"
    evaluated = experiment(evaluation={"every": "1 updates", "against": [name, "random", name]})
    program = expand(evaluated)
    assert [opponent.name for opponent in program.opponents] == [name, "random"]
    assert {role: source.version for role, source in program.opponents[0].sources.items()} == {"player": 2}
    assert Program.from_json(program.to_json()) == program
    four = evaluated.model_copy(update={"env": evaluated.env.model_copy(update={"id": "shoal/connect-four"})})
    with pytest.raises(InputError, match="it was trained for other spaces than 'player' has here"):
        expand(four)
