"""`env.timeout` is for each copy: an actor of many slow ones is not taken for hung, and one with a copy that hangs is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard
from tests.launchers.live import experiment, restarts

FILE = Path(__file__).with_name("slow_copies.py")


def slow(where: str, seconds: float, **env: Any) -> dict[str, Any]:
    kwargs = {"where": where, "seconds": seconds}
    return {"id": f"{FILE}:slow_copy", "kwargs": kwargs, "num_envs": 16, "timeout": 0.8, **env}


@pytest.mark.parametrize(
    ("where", "background"),
    [
        ("step", False),
        pytest.param("reset", False, marks=pytest.mark.slow),
        pytest.param("step", True, marks=pytest.mark.slow),
    ],
    ids=["step", "reset", "background"],
)
def test_copies_that_are_slow_only_together_are_not_killed(tmp_path: Path, where: str, background: bool) -> None:
    tree = experiment(
        env=slow(where, 0.1, background=background), learns={"name": "ppo", "unroll": 4, "minibatch": 64},
        placement={"actors": 1}, stop={"updates": 1},
    )  # fmt: skip
    outcome = shoal.train(tree, root=tmp_path, quiet=True)
    assert outcome.version == 1
    assert not restarts(outcome.folder)


@pytest.mark.slow
def test_evaluation_counts_the_same_way(tmp_path: Path) -> None:
    tree = experiment(
        env=slow("reset", 0.1, num_envs=2), learns={"name": "ppo", "unroll": 4, "minibatch": 8},
        placement={"actors": 1}, stop={"updates": 2}, evaluation={"every": "1 updates", "episodes": 12},
    )  # fmt: skip
    outcome = shoal.train(tree, root=tmp_path, quiet=True)
    assert not restarts(outcome.folder)


def test_a_copy_is_no_reason_to_cut_the_time_for_building_short() -> None:
    board = HeartbeatBoard.create(1)
    try:
        place = board.place(0)
        place.begin(60.0, in_env=True)
        place.between()
        assert board.pulse(0).allowed == 60.0
        place.beat()
        time.sleep(0.02)
        assert board.pulse(0).silent >= 0.02
        place.between()
        pulse = board.pulse(0)
        assert pulse.silent < 0.02 <= pulse.longest
        assert pulse.in_env
    finally:
        board.close()
