"""Where hosts cannot be made, or Ray is not installed, these tests skip and say why."""

from __future__ import annotations

import importlib.util

import pytest
from hosts import reason_to_skip


@pytest.fixture(scope="session")
def _can_make_hosts() -> None:
    if reason := reason_to_skip():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def _has_ray(_can_make_hosts: None) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("no Ray: EXTRAS=dev,cluster tools/setup.sh")
