"""Environments of a program's own: a class where a name is due, from modules and from the script itself, in any process."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from shoal.api.experiment import EnvConfig, Experiment
from shoal.base.config import load_layers
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.envs.partial import HideVelocity
from shoal.runs.evaluate import evaluate
from shoal.runs.train import train
from tests.evaluation.player_envs import Shop

SCRIPT = """
import gymnasium, numpy as np, shoal

class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.ones(1, np.float32), float(action), self.time == 20, False, {}

if "Walk-v0" not in gymnasium.registry:
    gymnasium.register("Walk-v0", entry_point=Walk)

def run(env):
    placed = {"algorithm": {"name": "ppo", "unroll": 8, "minibatch": 32}, "placement": {"actors": 2}}
    print(shoal.train(shoal.Experiment(env=env, stop={"updates": 2}, name="own", **placed), trial="one", quiet=True).reason)
"""
GUARDED = 'if __name__ == "__main__":\n    run(%s)\n'


def play(observation: Any, mask: Any, noise: np.ndarray) -> np.ndarray:
    return (noise[:, 0] < 0.5).astype(np.int64)


def run_script(folder: Path, text: str, script: str = "walk.py") -> subprocess.CompletedProcess[str]:
    (folder / script).parent.mkdir(exist_ok=True)
    (folder / script).write_text(SCRIPT + text)
    return subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True, timeout=240)


def test_a_class_of_the_script_is_found_by_worker_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run_script(tmp_path, GUARDED % "Walk", "below/walk.py")
    assert done.stdout == "stop.updates = 2 reached\n", done.stderr
    assert load_layers(tmp_path / "runs/own/one/config.yaml", [])["env"]["id"] == "below/walk.py:Walk"
    monkeypatch.chdir(tmp_path)
    assert evaluate("own/one", episodes=2)[0].lengths == [20, 20]


def test_a_script_that_trains_when_it_is_imported_is_told_so(tmp_path: Path) -> None:
    done = run_script(tmp_path, "run(Walk)\n")
    said = (
        "walk.py trains when it is imported, and processes import it: put its training under if __name__ == '__main__':"
    )
    assert done.stderr.splitlines()[-1].endswith(said)
    assert not (tmp_path / "runs").exists()


def test_a_name_that_the_script_registers_is_refused_at_the_start_with_the_remedy(tmp_path: Path) -> None:
    both = """
    try:
        run("Walk-v0")
    except shoal.InputError as error:
        print(error)
    run("walk.py:Walk-v0")
"""
    done = run_script(tmp_path, 'if __name__ == "__main__":' + both)
    refused, trained = done.stdout.splitlines()
    said = "name the module or file that registers it, as in 'walk.py:Walk-v0', or pass the class itself, env=MyEnv"
    assert refused.endswith(said)
    assert trained == "stop.updates = 2 reached", done.stderr


def test_such_a_name_is_known_where_all_stays_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gymnasium.envs.registration, "registry", registry := dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", registry)
    gymnasium.register("Long-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
    small = {"algorithm": {"name": "ppo", "unroll": 8, "minibatch": 32}, "stop": {"updates": 1}}
    experiment = Experiment.parse({"env": {"id": "Long-v0", "num_envs": 4}, **small})
    assert train(experiment, root=tmp_path, on="inline", quiet=True).version == 1
    with pytest.raises(InputError, match="env.id = 'Long-v0' is registered in this process alone"):
        train(experiment, root=tmp_path, on="local", quiet=True)


def test_gymnasium_registers_its_own_everywhere(tmp_path: Path) -> None:
    """What decides it: their names stand in gymnasium's own source."""
    source = Path(gymnasium.envs.__file__).read_text()
    code = "import gymnasium; print(*gymnasium.registry)"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert len(names) > 50
    assert not [name for name in names if f'"{name}"' not in source]


def test_classes_and_functions_stand_where_names_do() -> None:
    target = "tests.evaluation.player_envs:Shop"
    assert Experiment(env=Shop).env.id == target  # type: ignore[arg-type]
    env = EnvConfig(id=Shop, wrappers=[HideVelocity])  # type: ignore[arg-type, list-item]
    assert (env.id, env.wrappers) == (target, ["shoal.envs.partial:HideVelocity"])
    env = Experiment.parse({"env": {"id": Shop}, "policies": {"a": {"play": play}}})
    assert env.policies["a"].play == f"{__name__}:play"
    make_env(env.env, 1).close()


class Session:
    """As a notebook's: its module has no file."""


Session.__module__ = "session"


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (lambda: Shop(), "worker processes cannot import '<lambda>': define it at the top level of a file"),
        (functools.partial(Shop), "pass a class or a function, or its name as text"),
        (Session, "worker processes cannot import 'Session': put it into a file of its own"),
        (3, "should be a group of settings"),
    ],
)
def test_what_no_other_process_can_import_is_refused(env: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Experiment.parse({"env": env})
