"""Strict settings: what is wrong is named with key, value and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.api.experiment import Experiment, load_experiment
from shoal.base.config import Config, Count, Named, Schedule, Weight, describe, load_layers, value_at
from shoal.base.errors import InputError


def load(tmp_path: Path, text: str, *overrides: str) -> Experiment:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return load_experiment(path, list(overrides))


def test_a_file_becomes_a_typed_tree(tmp_path: Path) -> None:
    text = "env: {id: CartPole-v1, num_envs: 8}\nalgorithm: {name: ppo, lr: 1e-4}\nstop: {steps: 1e6, return: 475}"
    experiment = load(tmp_path, text)
    assert experiment.name == "mine"
    assert experiment.env.num_envs == 8
    assert experiment.algorithm.rest == {"lr": 1e-4}
    assert experiment.stop.steps == 1_000_000
    assert isinstance(experiment.stop.steps, int)
    assert experiment.stop.return_ == 475


def test_overrides_win(tmp_path: Path) -> None:
    text = "env: {id: CartPole-v1}\nstop: {return: 475}"
    experiment = load(
        tmp_path, text, "stop.return=null", "algorithm.clip=0.1", "env.id=Acrobot-v1", "seed=7", "stop.seconds=2h"
    )
    assert experiment.stop.return_ is None
    assert experiment.algorithm.rest == {"clip": 0.1}
    assert experiment.env.id == "Acrobot-v1"
    assert experiment.seed == 7
    assert experiment.stop.seconds == 7200


def test_another_name_forgets_the_keys_of_the_one_before(tmp_path: Path) -> None:
    text = "env: {id: x}\nmodel: {name: mlp, hidden: [8]}\nalgorithm: {name: ppo, lr: 1.0}"
    experiment = load(tmp_path, text, "model.size=3", "model.name=mine:Net", "algorithm.name=ppo")
    assert experiment.model.rest == {"size": 3}
    assert experiment.algorithm.rest == {"lr": 1.0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("env: {id: x, num_env: 3}", ["env.num_env = 3", "did you mean 'num_envs'"]),
        ("env: {id: x}\nalgoritm: {name: ppo}", ["algoritm", "did you mean 'algorithm'"]),
        ("env: {id: x, num_envs: many}", ["env.num_envs = 'many'", "whole number"]),
        ("env: {id: x, num_envs: 2.5}", ["env.num_envs = 2.5", "whole number"]),
        ("env: {id: x, num_envs: true}", ["env.num_envs = true"]),
        ("env: {id: x, num_envs: 0}", ["env.num_envs = 0", "greater than or equal to 1"]),
        ("env: {id: x}\nstop: {seconds: 3 weeks}", ["stop.seconds = '3 weeks'", "5m"]),
        ("env: {id: x}\nstop: {seconds: .inf}", ["stop.seconds"]),
        ("env: {id: x}\nenv: {id: y}", ["duplicate", "env"]),
        ("env: {id: x, id: y}", ["duplicate", "id"]),
        ("env: [", ["YAML"]),
        ("- 1", ["holds no settings"]),
        ("", ["holds no settings", "env: {id"]),
        ("stop: {steps: 5}", ["env is not given, and has no default"]),
        ("env: {id: x}\nname: my run", ["name = 'my run': use letters, digits"]),
        ("env: {id: x}\nnum_envs: 4", ["num_envs = 4: there is no such key; did you mean 'env.num_envs'?"]),
        ("env: {id: x}\nname: ../up", ["name = '../up'"]),
        ("env: {id: x}\nseed: -1", ["seed = -1"]),
        ("env: {id: x}\nalgorithm: 3", ["algorithm = 3"]),
        ("env: {id: '${nothing}'}", ["nothing"]),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_override_without_a_value() -> None:
    with pytest.raises(InputError, match="write key=value"):
        load_layers(None, ["algorithm.clip"])


def test_python_and_yaml_build_the_same(tmp_path: Path) -> None:
    from shoal.algorithms.actor_critic.ppo import PPOConfig

    text = "env: {id: CartPole-v1}\nalgorithm: {name: ppo, lr: 1e-3}\nname: e"
    built = Experiment(env="CartPole-v1", algorithm=PPOConfig(lr=1e-3), name="e")  # type: ignore[arg-type]
    assert built == load(tmp_path, text)


def test_what_is_dumped_can_be_loaded() -> None:
    experiment = Experiment(env="CartPole-v1", stop={"return": 3.0})  # type: ignore[arg-type]
    assert Experiment.parse(experiment.model_dump()) == experiment


def test_configs_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Experiment(env="x").seed = 3  # type: ignore[arg-type, misc]


def every_config(cls: type[Config]) -> set[type[Config]]:
    return {cls, *(deep for sub in cls.__subclasses__() for deep in every_config(sub))}


def test_every_field_is_documented_where_it_is_defined() -> None:
    from shoal.models import MODELS

    for name in MODELS.entries:
        MODELS.load(name)

    for cls in every_config(Config):
        if cls.__module__.startswith("shoal."):
            assert set(cls.model_fields) - {"name"} == set(describe(cls)) - {"name"}, cls.__name__


def test_a_description_is_the_string_under_the_field() -> None:
    class Wide(Schedule):
        """A class of its own."""

        width: int = 3
        """How wide,
        in metres."""
        bare: int = 4
        end: float = 1.0
        """Said anew."""

    own = {key: describe(Schedule)[key] for key in ("steps", "jumps")}
    told = {"start": "Value at step 0.", "end": "Said anew.", **own}
    assert describe(Wide) == {**told, "width": "How wide,\nin metres."}


def test_schedule() -> None:
    line = Schedule(start=1.0, end=0.0)
    assert [value_at(line, step, 100) for step in (0, 50, 100, 200)] == [1.0, 0.5, 0.0, 0.0]
    assert value_at(Schedule(start=1.0, end=3.0, steps=10), 5, 1000) == 2.0
    assert value_at(0.5, 7, None) == 0.5


def test_nested_sections_name_their_key() -> None:
    class Inner(Config):
        size: Count = 3
        """Size."""

    with pytest.raises(InputError, match=r"algorithm\.sise = 4: there is no such key; did you mean 'size'"):
        Inner.parse(Named(name="x", sise=4).rest, at="algorithm")  # type: ignore[call-arg]


def test_a_misspelt_key_is_named_before_the_one_that_is_missing() -> None:
    from shoal.api.experiment import Experiment

    with pytest.raises(InputError, match=r"^evaluation.evry = '1s': there is no such key; did you mean 'every'\?$"):
        Experiment.parse({"env": "CartPole-v1", "evaluation": {"evry": "1s"}})


PLAYERS = "env: {id: x}\nagents: {player_0: one, player_1: two}\npolicies: {one: {}, two: {play: random}}\n"


def test_agents_on_top_replace_those_of_the_file(tmp_path: Path) -> None:
    """Which pattern comes first decides: two mappings cannot be one."""
    everyone = load(tmp_path, PLAYERS, "agents={'*': one}")
    assert (everyone.agents, set(everyone.policies)) == ({"*": "one"}, {"one"})
    other = load(tmp_path, PLAYERS, "agents={'*': new}", "policies.new.play=null")
    assert (other.agents, set(other.policies)) == ({"*": "new"}, {"new"})
    assert load(tmp_path, PLAYERS, "agents.player_1=one").agents == {"player_0": "one", "player_1": "one"}


@pytest.mark.parametrize("override", ["algorithm.name=dqn", "algorithm={name: dqn}"])
def test_another_class_on_top_forgets_the_keys_of_the_first(tmp_path: Path, override: str) -> None:
    text = "env: {id: x}\nalgorithm: {name: ppo, clip: 0.1}"
    assert load(tmp_path, text, override).algorithm.rest == {}
    assert load(tmp_path, text, "algorithm={name: ppo, lr: 1e-3}").algorithm.rest == {"clip": 0.1, "lr": 1e-3}


@pytest.mark.parametrize(("file", "name"), [("my run.yaml", "my-run"), ("_a_.yaml", "a"), ("é.yaml", "experiment")])
def test_any_file_names_its_experiment(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).write_text("env: {id: x}")
    assert load_experiment(tmp_path / file, []).name == name


def test_a_schedule_may_jump() -> None:
    found = Schedule(start=1.0, end=0.25, jumps=[[100, 0.5], [200, 0.25]])
    assert [found.at(step, None) for step in (0, 99, 100, 199, 200, 10_000)] == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]

    class Own(Config):
        """With a weight."""

        weight: Weight = 1.0

    with pytest.raises(InputError, match="should be at least 0"):
        Own.parse({"weight": {"start": 1.0, "end": 0.5, "jumps": [[100, -1.0]]}})
