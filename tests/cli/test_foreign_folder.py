"""A folder from somebody else that is only looked at: nothing that lies in it runs, nothing of ours is read into it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.api.experiment import EnvConfig
from shoal.base.config import load_layers
from shoal.base.errors import InputError
from shoal.base.table import import_target
from shoal.envs.factory import forms_of
from shoal.monitoring.run_folder import RunFolder
from tests.cli.test_cli import QUICK, shoal

LIBRARIES = ("ale_py", "gymnasium", "matplotlib", "numpy", "omegaconf", "pydantic", "safetensors", "torch")
TRAP = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\nraise RuntimeError('a trap')\n"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one quick run, cartpole/one, of somebody who would let everybody in."""
    folder = tmp_path_factory.mktemp("foreign")
    before = os.umask(0)
    try:
        done = shoal("train", "cartpole", "--trial", "one", *QUICK, cwd=folder)
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def foreign(runs: Path, tmp_path: Path) -> Path:
    """The run, with a file beside it for every library that a command may want."""
    folder = tmp_path / "foreign"
    shutil.copytree(runs / "runs" / "cartpole" / "one", folder)
    for name in LIBRARIES:
        (folder / f"{name}.py").write_text(TRAP)
    return folder


def test_a_run_is_for_its_owner_alone(runs: Path) -> None:
    paths = [runs / "runs", *(runs / "runs").rglob("*")]
    names = {path.name for path in paths}
    assert {"config.yaml", "metrics.jsonl", "events.jsonl", ".lock", "state.safetensors", "local.log"} <= names
    modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in paths}
    assert modes == {str(path): 0o700 if path.is_dir() else 0o600 for path in paths}


def typed(*words: str, cwd: Path, installed: bool = False) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as `python -m shoal.cli` or as the installed `shoal`."""
    start = ["-Pc", "from shoal.cli import main; main()"] if installed else ["-m", "shoal.cli"]
    return subprocess.run([sys.executable, *start, *words], cwd=cwd, capture_output=True, text=True)


def test_files_beside_a_run_do_not_pass_for_libraries(foreign: Path) -> None:
    done = typed("evaluate", ".", "--episodes", "1", cwd=foreign)
    assert done.returncode == 0, done.stderr
    assert not list(foreign.glob("*.ran"))


def test_nor_does_one_for_the_package_of_its_environment(foreign: Path) -> None:
    pytest.importorskip("ale_py", reason="`shoal[atari]` is not installed")
    config = foreign / "config.yaml"
    config.write_text(config.read_text().replace("CartPole-v1", "ale_py:ALE/Pong-v5"))
    done = typed("evaluate", ".", "--episodes", "1", cwd=foreign, installed=True)
    assert done.returncode != 0  # Pong does not fit what CartPole's policy learned
    assert not list(foreign.glob("*.ran"))


def test_nor_in_processes_of_a_run(foreign: Path) -> None:
    words = [word for word in QUICK if "updates" not in word]
    done = typed("train", "cartpole", *words, "placement.actors=1", "stop.updates=1", cwd=foreign)
    assert done.returncode == 0, done.stderr
    assert not list(foreign.glob("*.ran"))


def test_a_missing_package_is_not_looked_for_in_the_current_folder(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(foreign)
    monkeypatch.delitem(sys.modules, "ale_py", raising=False)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not (Path(entry) / "ale_py").exists()])
    with pytest.raises(InputError, match=r"shoal\[atari\]"):
        forms_of(EnvConfig(id="ALE/Pong-v5"))
    assert not list(foreign.glob("*.ran"))


def test_nothing_runs_to_draw_a_curve(foreign: Path) -> None:
    (foreign / "matplotlibrc").write_text("text.usetex: True\n")  # would start LaTeX
    done = typed("plot", ".", cwd=foreign)
    assert done.returncode == 0, done.stderr
    assert not list(foreign.glob("*.ran"))


def test_a_module_of_ones_own_is_found_in_the_current_folder(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "runs", tmp_path / "runs")
    (tmp_path / "mine.py").write_text("import gymnasium\ndef make():\n    return gymnasium.make('CartPole-v1')\n")
    (tmp_path / "gymnasium.py").write_text(TRAP)
    done = typed("evaluate", "cartpole/one", "env.id=mine:make", "--episodes", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("*.ran"))


def test_a_folder_without_code_hides_no_package_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "first" / "ponds").mkdir(parents=True)
    (tmp_path / "second" / "ponds").mkdir(parents=True)
    (tmp_path / "second" / "ponds" / "__init__.py").write_text("DEPTH = 3\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), *sys.path])
    monkeypatch.chdir(tmp_path / "second")
    assert import_target("ponds:DEPTH", key="env.id") == 3


def test_variables_are_not_read_into_the_settings_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be somebody else's settings; what is typed is ours."""
    monkeypatch.setenv("SECRET", "told")
    folder = RunFolder(tmp_path)
    folder.config.write_text("name: ${oc.env:SECRET}\nmodel: {name: '${oc.env:SECRET}', hidden: [8]}\n")
    assert folder.read_config()["name"] == "${oc.env:SECRET}"
    assert folder.read_config(["seed=${oc.env:SECRET}"])["seed"] == "told"
    assert folder.read_config(["model.name=${oc.env:SECRET}"])["model"] == {"name": "told"}
    assert load_layers(folder.config, [])["name"] == "told", "one's own file for `shoal train`"
