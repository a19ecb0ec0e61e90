"""From settings to an environment, and every mistake on the way: one line that names key, value and remedy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.api.env import Env
from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.envs.factory import forms_of
from shoal.envs.gymnasium_loop import GymnasiumLoop
from shoal.envs.gymnasium_vector import GymnasiumVector
from shoal.envs.registry import ENVS
from shoal.envs.toys.single_agent import Chain, Cut


def made(env_id: str, copies: int = 2, *, first_slot: int = 0, render: bool = False, **settings: Any) -> Env:
    return make_env(EnvConfig(id=env_id, **settings), copies, first_slot=first_slot, render=render)


def refused(env_id: str, **settings: Any) -> str:
    with pytest.raises(InputError) as caught:
        made(env_id, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("env_id", "kind"),
    [
        ("CartPole-v1", GymnasiumVector),
        ("Acrobot-v1", GymnasiumLoop),
        ("sample_worlds:Sample/Counting-v0", GymnasiumLoop),
        ("sample_worlds:Counting", GymnasiumLoop),
        ("sample_worlds:make_counting", GymnasiumLoop),
        ("sample_worlds:make_vector", GymnasiumVector),
        ("sample_worlds:make_cut", Cut),
        ("shoal.envs.toys.single_agent:Cut", Cut),
        ("shoal/chain", Chain),
    ],
)
def test_ids_find_their_world(env_id: str, kind: type) -> None:
    env = made(env_id)
    assert type(env) is kind
    assert env.num_envs == 2
    assert env.reset(0).turns["agent"].acting.shape == (2, 1)


def test_a_file_is_a_module_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import gymnasium\ndef world(length): return gymnasium.make('CartPole-v1', max_episode_steps=length)\n"
    )
    env = made(f"{file}:world", kwargs={"length": 2})
    env.reset(0)
    env.step({"agent": np.zeros((2, 1), np.int64)})
    assert env.step({"agent": np.zeros((2, 1), np.int64)}).turns["agent"].truncated.all()


@pytest.mark.parametrize("env_id", ENVS)
def test_shoals_own_worlds_can_be_had(env_id: str) -> None:
    assert made(env_id, 3).num_envs == 3


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("CartPol-v1", ["env.id = 'CartPol-v1'", "did you mean 'CartPole-v1'?"]),
        ("CartPole", ["env.id = 'CartPole'", "did you mean 'CartPole-v"]),
        ("Zzz-v0", ["env.id = 'Zzz-v0'", "not known to gymnasium", "module:factory"]),
        ("shoal/chian", ["env.id = 'shoal/chian'", "did you mean 'shoal/chain'?"]),
        ("sample_worlds:Sample/Countin-v0", ["env.id", "did you mean 'Sample/Counting-v0'?"]),
        ("no_such_module:Id-v0", ["env.id = 'no_such_module", "no module 'no_such_module'"]),
        ("no_such_module:world", ["env.id = 'no_such_module:world'", "no module 'no_such_module'"]),
        ("no_such_file.py:world", ["env.id", "no file 'no_such_file.py'"]),
        ("sample_worlds:make_countin", ["env.id", "did you mean 'make_counting'?"]),
        ("sample_worlds:NOT_CALLABLE", ["env.id", "is a int", "class or a function"]),
        ("sample_worlds:make_nothing", ["env.id", "made a NoneType", "gymnasium.Env"]),
        ("sample_worlds:make_cut_in_secret", ["env.id", "made a Cut", "parameter num_envs"]),
    ],
)
def test_a_wrong_id_is_explained(env_id: str, words: list[str]) -> None:
    text = refused(env_id)
    assert len(text) < 200
    for word in words:
        assert word in text


def test_a_module_that_fails_to_import_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("import gymnasium\nraise OSError('no disk')\n")
    assert "OSError: no disk" in refused(f"{file}:world")


# ---------------------------------------------------------------- packages and kwargs


def test_a_missing_ale_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(InputError, match=r"env.id = 'ALE/Pong-v5' needs a package .*: pip install \"shoal\[atari\]\""):
        make_env(EnvConfig(id="ALE/Pong-v5"), 1)


def test_a_missing_module_is_named_with_the_id() -> None:
    with pytest.raises(
        InputError, match=r"env.id = 'nowhere_at_all:Thing-v0': there is no module 'nowhere_at_all' here"
    ):
        make_env(EnvConfig(id="nowhere_at_all:Thing-v0"), 1)


def test_a_missing_box2d_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("gymnasium.envs.box2d", "Box2D"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    text = refused("LunarLander-v3")
    assert text.startswith("env.id = 'LunarLander-v3'")
    assert 'pip install "shoal[box2d]"' in text


def test_any_missing_package_is_named(tmp_path: Path) -> None:
    file = tmp_path / "needy.py"
    file.write_text("def world():\n    import no_such_package\n")
    assert "pip install no_such_package" in refused(f"{file}:world")


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "Acrobot-v1", "sample_worlds:Counting", "shoal/chain", "sample_worlds:make_cut"]
)
def test_unknown_kwargs_are_explained(env_id: str) -> None:
    text = refused(env_id, kwargs={"lenght": 3})
    assert text.startswith("env.kwargs = {'lenght': 3}")
    assert "lenght" in text.split(": ", 2)[-1]
    assert "Error" in text


def test_bad_values_of_kwargs_are_explained() -> None:
    assert refused("FrozenLake-v1", kwargs={"map_name": "9x9"}).startswith("env.kwargs = {'map_name': '9x9'}")
    assert "autoreset is 'same' or 'next'" in refused("shoal/cut", kwargs={"autoreset": "never"})


def test_kwargs_reach_the_world() -> None:
    assert made("shoal/cut", kwargs={"length": 7}).best_return == 7.0  # type: ignore[attr-defined]


# ---------------------------------------------------------------- forms and wrappers


def test_forms() -> None:
    assert forms_of(EnvConfig(id="CartPole-v1")) == ("loop", "native")
    assert forms_of(EnvConfig(id="CartPole-v1", wrappers=["sample_worlds:Shifted"])) == ("loop",)
    assert forms_of(EnvConfig(id="Acrobot-v1")) == ("loop",)
    assert forms_of(EnvConfig(id="shoal/chain")) == ("native",)
    assert type(made("CartPole-v1", vector="loop")) is GymnasiumLoop
    assert type(made("CartPole-v1", vector="native")) is GymnasiumVector
    assert type(made("CartPole-v1", wrappers=["shoal.envs.partial:HideVelocity"])) is GymnasiumLoop


@pytest.mark.parametrize(
    ("env_id", "settings", "words"),
    [
        ("Acrobot-v1", {"vector": "native"}, ["env.vector = 'native'", "Acrobot-v1", "auto or loop"]),
        ("sample_worlds:Counting", {"vector": "native"}, ["env.vector = 'native'", "auto or loop"]),
        ("CartPole-v1", {"vector": "native", "wrappers": ["sample_worlds:Shifted"]}, ["env.vector", "env.wrappers"]),
        ("shoal/chain", {"vector": "loop"}, ["env.vector = 'loop'", "write auto"]),
        ("shoal/chain", {"wrappers": ["sample_worlds:Shifted"]}, ["env.wrappers", "'shoal/chain' is a batch"]),
    ],
)
def test_a_form_that_does_not_exist_is_refused(env_id: str, settings: dict[str, Any], words: list[str]) -> None:
    text = refused(env_id, **settings)
    for word in words:
        assert word in text


def test_wrappers_go_on_innermost_first() -> None:
    env = made("sample_worlds:Counting", wrappers=["sample_worlds:Shifted", "sample_worlds:Doubled"])
    assert env.reset(0).turns["agent"].observation[0, 0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("wrapper", "words"),
    [
        ("no_such_module:Wrapper", ["env.wrappers = 'no_such_module:Wrapper'", "no module"]),
        ("sample_worlds:Shifte", ["env.wrappers", "did you mean 'Shifted'?"]),
        ("Shifted", ["env.wrappers = 'Shifted'", "module:Name"]),
        ("gymnasium.wrappers:TimeLimit", ["env.wrappers = 'gymnasium.wrappers:TimeLimit'", "max_episode_steps"]),
    ],
)
def test_a_wrong_wrapper_is_explained(wrapper: str, words: list[str]) -> None:
    text = refused("Acrobot-v1", wrappers=[wrapper])
    for word in words:
        assert word in text


# ---------------------------------------------------------------- the rest


def test_first_slot_reaches_shoals_own_worlds() -> None:
    whole, tail = made("shoal/target", 4), made("shoal/target", 2, first_slot=2)
    rows = [env.reset(3).turns["agent"].observation for env in (whole, tail)]
    assert np.array_equal(rows[0][2:], rows[1])


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "LunarLander-v3"])
@pytest.mark.filterwarnings("ignore:builtin type \\w+ has no __module__ attribute:DeprecationWarning")
def test_render_is_asked_for(env_id: str) -> None:
    env = made(env_id, 1, render=True, vector="loop")
    env.reset(0)
    picture = env.render(0)
    assert picture is not None
    assert picture.dtype == np.uint8
    env.close()
    assert made(env_id, 1, vector="loop").render(0) is None


def test_worlds_that_cannot_draw_are_not_asked_to() -> None:
    env = made("sample_worlds:Counting", 1, render=True)
    env.reset(0)
    assert env.render(0) is None


def test_importing_the_folder_imports_no_adapter() -> None:
    code = "import shoal.envs, sys; print([m for m in ('gymnasium', 'torch', 'pydantic') if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert run.stdout.strip() == "[]"


def test_adapters_and_toys_do_not_import_torch() -> None:
    code = (
        "import sys; from shoal.api.experiment import EnvConfig; from shoal.envs import make_env\n"
        "make_env(EnvConfig(id='CartPole-v1'), 1); make_env(EnvConfig(id='Acrobot-v1'), 1)\n"
        "make_env(EnvConfig(id='shoal/signal'), 1); print('torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert run.stdout.strip() == "False"
