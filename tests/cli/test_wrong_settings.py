"""Wrong settings, made from the config tree itself: exit code 2, one line on stderr, nothing started, none accepted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel

from shoal.algorithms import ALGORITHMS
from shoal.api.experiment import Experiment
from shoal.base import peers
from shoal.cli.app import app
from shoal.models import MODELS
from shoal.recipes import names
from shoal.workers.replica_sync import SYNCS
from tests.cli.test_cli import shoal
from tests.cli.wrong_values import keys, misspelt, wrong_values

FREE = {
    "env.kwargs",
    "curriculum",
    "name",
    "policies",
    "workers",
    "agents",
    "evaluation.metrics",
    "placement.cluster.others",
}
"""Keys whose wrong values are written out below, or are those of an environment."""


@pytest.fixture(autouse=True, scope="module")
def _one_command() -> Iterator[None]:
    """Typer builds its commands anew at each call, which takes most of the time of a thousand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.cli.app.app", typer.main.get_command(app))
        yield


def algorithm_config(name: str) -> type[BaseModel]:
    config: type[BaseModel] = ALGORITHMS.load(name).Config
    return config


SECTIONS: dict[str, tuple[type[BaseModel], str, list[str]]] = {
    "experiment": (Experiment, "", []),
    **{name: (algorithm_config(name), "algorithm", [f"algorithm.name={name}"]) for name in ALGORITHMS.entries},
    **{f"model {name}": (MODELS.load(name).Config, "model", [f"model.name={name}"]) for name in MODELS.entries},
    "average": (SYNCS.load("average").Config, "placement.agree", ["placement.agree.name=average"]),
}


def wrong(section: str) -> Iterator[list[str]]:
    """Overrides, each list with one mistake."""
    model, prefix, chosen = SECTIONS[section]
    known = [key for key, _ in keys(model, prefix)]
    for key, info in keys(model, prefix):
        if not key.endswith(".name") and key not in FREE:
            yield from ([*chosen, f"{key}={value}"] for value in wrong_values(info))
        if misspelt(key) not in known:
            yield [*chosen, f"{misspelt(key)}=1"]


def accepted(cwd: Path, words: list[str]) -> str | None:
    """None where it is refused as it should be; otherwise what happened."""
    try:
        done = shoal("plan", "cartpole", *words, cwd=cwd)
    except BaseException as error:
        return f"{words}: {type(error).__name__}: {error}"
    lines = done.stderr.strip().splitlines()
    if done.returncode == 2 and len(lines) == 1 and lines[0].startswith("shoal: ") and not done.stdout:
        return None
    return f"{words}: code {done.returncode}, {done.stderr!r}"


@pytest.mark.parametrize("section", SECTIONS)
def test_wrong_settings_are_refused(section: str, tmp_path: Path) -> None:
    cases = list(wrong(section))
    assert cases
    assert [said for words in cases if (said := accepted(tmp_path, words)) is not None] == []
    assert not list(tmp_path.iterdir())


def test_there_are_many_of_them() -> None:
    assert sum(len(list(wrong(section))) for section in SECTIONS) >= 200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["curriculum=[{at: nonsense}]"], "curriculum.0.at = 'nonsense': should be a number"),
        (["curriculum=3"], "curriculum = 3: should be a list"),
        (["name=[1]"], "name = [1]: should be a string"),
        (["name=my run"], "name = 'my run': use letters, digits"),
        (["env.kwargs=3"], "env.kwargs = 3"),
        (["env.kwargs.nonsense=1"], "env.kwargs = {'nonsense': 1} does not suit 'CartPole-v1'"),
        (["policies=3"], "policies = 3"),
        (["workers={w: nowhere.py:Nothing}"], "there is no file 'nowhere.py'"),
        (["agents=3"], "agents = 3"),
        (["agents={'*': 3}"], "agents.* = 3: should be a string"),
        (["evaluation={every: 1m, metrics: {a: best}}"], "evaluation.metrics.a = 'best'"),
        (["algorithm.lr={begin: 3}"], "algorithm.lr.begin = 3: there is no such key"),
        (["algorithm.lr={start: -1, end: 0}"], "algorithm.lr = {'start': -1, 'end': 0}: should be greater than 0"),
        (["algorithm.lr=0"], "algorithm.lr = 0: should be greater than 0"),
        (
            ["algorithm.name=dqn", "algorithm.epsilon=1.5"],
            "algorithm.epsilon = 1.5: should be at least 0 and at most 1",
        ),
        (["placement.actors=3"], "placement.actors = 3 cannot share env.num_envs = 32: try 2, or env.num_envs = 33"),
        (
            ["placement.trainers=5"],
            "placement.trainers = 5 cannot share env.num_envs = 32: try 4, or env.num_envs = 35",
        ),
        (
            ["placement.ring=3"],
            "placement.actors = 1 x placement.ring = 3 cannot share env.num_envs = 32: try env.num_envs = 33",
        ),
    ],
)
def test_the_words(words: list[str], said: str, tmp_path: Path) -> None:
    done = shoal("plan", "cartpole", *words, cwd=tmp_path)
    assert said in done.stderr
    assert accepted(tmp_path, words) is None


# ---------------------------------------------------------------- the names of other libraries


def section_of(ours: str) -> list[str]:
    """What to choose so that there is such a key."""
    head, _, last = ours.rpartition(".")
    if head == "algorithm":
        name = next(name for name in ALGORITHMS.entries if last in algorithm_config(name).model_fields)
        return [f"algorithm.name={name}"]
    return []


@pytest.mark.parametrize("ours", peers.KEYS)
def test_names_of_other_libraries_lead_to_ours(ours: str, tmp_path: Path) -> None:
    head, _, last = ours.rpartition(".")
    for theirs in peers.KEYS[ours].split():
        if theirs != last:
            done = shoal("plan", "cartpole", *section_of(ours), f"{head}.{theirs}=1".lstrip("."), cwd=tmp_path)
            assert f"did you mean '{last}'?" in done.stderr, (theirs, done.stderr)
            assert done.returncode == 2
    done = shoal("plan", "cartpole", f"log.{peers.KEYS[ours].split()[0]}=1", cwd=tmp_path)
    assert "did you mean '" in done.stderr, "in another section as well"


def test_every_name_of_ours_is_there() -> None:
    known = {key for section in SECTIONS for key, _ in keys(*SECTIONS[section][:2])}
    assert set(peers.KEYS) <= known
    assert set(peers.RECIPES.values()) <= set(names())
    assert {ours.partition(" ")[0] for ours in peers.ALGORITHMS.values()} <= set(ALGORITHMS.entries)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["plan", "cartpole", "algorithm.name=mappo"],
            "; write algorithm.name=ppo algorithm.critic=central, as in the recipe 'spread' (or",
        ),
        (["plan", "cartpole", "algorithm.name=DDPG"], "; algorithm.name=sac comes nearest (or"),
        (["plan", "mappo"], "there is no recipe 'mappo'; did you mean 'spread'?"),
        (["plan", "cartpole", "algorithm.ent_coef=0.1"], "did you mean 'entropy'?"),
        (["plan", "cartpole", "algorithm.batch_size=64"], "did you mean 'minibatch'?"),
        (["plan", "cartpole-dqn", "algorithm.batch_size=64"], "did you mean 'batch'?"),
        (["plan", "pendulum-sac", "algorithm.ent_coef=0.1"], "did you mean 'temperature'?"),
        (["plan", "cartpole", "total_timesteps=1000"], "did you mean 'stop.steps'?"),
    ],
)
def test_the_nearest_of_ours(words: list[str], said: str, tmp_path: Path) -> None:
    done = shoal(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
