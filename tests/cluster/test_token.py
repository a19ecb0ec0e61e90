"""A cluster with a token lets in who has it, and nobody else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from nodes import Cluster, write_token

pytestmark = pytest.mark.usefixtures("_has_ray")

_DRIVER = """
import time, ray
began = time.monotonic()
try:
    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    print("in", len(ray.nodes()))
except Exception as error:
    print(type(error).__name__, time.monotonic() - began < 10)
"""
_AT_ONCE = {"RAY_NUM_REDIS_GET_RETRIES": "1"}  # or a wrong token is tried for 20 s, once a second


def _driver(cluster: Cluster, env: dict[str, str]) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", _DRIVER]
    env = {**cluster.env, "RAY_ADDRESS": cluster.address, **_AT_ONCE, **env}
    return cluster.spawn(0, argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_only_the_right_token_is_let_in(tmp_path: Path) -> None:
    right, wrong = write_token(tmp_path / "right"), write_token(tmp_path / "wrong")
    with Cluster(right) as cluster:
        cluster.start(nodes=1, cpus=1)
        nowhere = {"RAY_AUTH_TOKEN_PATH": "", "HOME": str(tmp_path)}
        drivers = [_driver(cluster, env) for env in (right, wrong, nowhere, {"RAY_AUTH_MODE": "disabled"})]
        said = [driver.communicate(timeout=60) for driver in drivers]
        assert [out.strip() for out, _ in said] == [
            "in 1",
            "ConnectionError True",
            "AuthenticationError True",
            "ConnectionError True",
        ]
        assert "InvalidAuthToken" in said[1][1]
        cluster.env |= wrong | _AT_ONCE
        with pytest.raises(RuntimeError, match="InvalidAuthToken"):
            cluster.add_node()


def test_a_token_file_is_its_owners_alone(tmp_path: Path) -> None:
    was = os.umask(0)
    try:
        path = Path(write_token(tmp_path / "token")["RAY_AUTH_TOKEN_PATH"])
    finally:
        os.umask(was)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_text()) == 64
