"""The table of native environments against the code: which there are, who plays in them, what they can be told."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from shoal.api.experiment import EnvConfig
from shoal.base.table import import_target
from shoal.envs import make_env
from shoal.envs.registry import ENVS
from tests.docs.pages import DOCS

NATIVE = [env_id for env_id, target in ENVS.items() if not target.startswith("shoal.envs.toys.")]
COMMON = {"num_envs", "first_slot", "max_cycles", "continuous_actions", "kwargs", "settings", "self"}
PAGE = (DOCS / "nouns/env.md").read_text().partition("## Native environments")[2]
ROWS = dict(re.findall(r"^\| `(shoal/[\w-]+)` (\|.*)$", PAGE, re.MULTILINE))


def parameters(target: str) -> set[str]:
    factory: Any = import_target(target.removesuffix(".batch"), key="env.id")
    return set(inspect.signature(factory).parameters) - COMMON


def test_every_native_world_has_a_row() -> None:
    assert sorted(ROWS) == sorted(NATIVE)


@pytest.mark.parametrize("env_id", NATIVE)
def test_a_row_names_groups_and_settings(env_id: str) -> None:
    _, groups, settings, _ = ROWS[env_id].split("|")
    shown = {name: int(count) for name, count in re.findall(r"`(\w+)` (\d+)", groups)}
    assert shown == {name: len(group.agents) for name, group in make_env(EnvConfig(id=env_id), 1).groups.items()}
    assert set(re.findall(r"`(\w+)`", settings)) - {"one", "own"} == parameters(ENVS[env_id])
