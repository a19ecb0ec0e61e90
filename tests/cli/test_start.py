"""What starting a run must not cost: packages that it has no use for, and a garbage collector that looks through torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

UNUSED = (
    "torch._dynamo", "torch._inductor", "torch.utils.tensorboard", "torch.testing._internal.common_utils",
    "sympy", "networkx", "scipy", "matplotlib", "pandas", "PIL",
    "rich", "pygments", "prometheus_client", "psutil", "cloudpickle",
    "tensorflow", "tensorboard.backend", "tensorboard.summary", "tensorboard.compat.tensorflow_stub", "grpc",
    "pettingzoo", "pygame", "Box2D", "mpe2", "open_spiel", "gymnasium.envs.box2d", "gymnasium.envs.mujoco",
    "ray", "shoal.launchers.ray", "shoal.runs.ray", "shoal.launchers.slurm",
    "shoal.testing", "setuptools", "pkg_resources", "pytest",
)  # fmt: skip

CODE = """
import gc, json, sys
from shoal.cli import main
sys.argv = ["shoal", "train", "cartpole", "stop.updates=1"]
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
print(json.dumps({"modules": list(sys.modules), "collects": gc.isenabled(), "frozen": gc.get_freeze_count()}))
"""


@pytest.fixture(scope="module")
def after_a_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("start")
    done = subprocess.run([sys.executable, "-c", CODE], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "stop.updates = 1 reached" in done.stdout
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_run_imports_nothing_that_it_has_no_use_for(after_a_run: dict[str, Any]) -> None:
    modules = after_a_run["modules"]
    found = [name for name in UNUSED if any(module == name or module.startswith(f"{name}.") for module in modules)]
    assert not found
    assert "torch" in modules, "it did train"


def test_a_run_collects_garbage_but_does_not_look_through_torch(after_a_run: dict[str, Any]) -> None:
    assert after_a_run["collects"]
    assert after_a_run["frozen"] > 100_000
