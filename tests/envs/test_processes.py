"""`env.vector: processes`: the same steps as in a loop; a copy that is slow, hangs or dies is the affair of nobody else."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shoal.api.env import Env, Step
from shoal.api.experiment import EnvConfig, Experiment
from shoal.base.descendants import below, lives
from shoal.base.errors import InputError, ShoalError
from shoal.envs import make_env
from shoal.program.expand import expand
from shoal.runs.load import load
from shoal.runs.train import train
from shoal.testing.env import check_env
from shoal.testing.recording import copy_step, first_difference, play
from shoal.testing.sampler import ActionSampler

ODD = "tests.envs.slow_envs:Odd"
SHOP = "tests.evaluation.player_envs:Shop"
IDLE = {"agent": np.zeros((4, 1), np.int64)}


def made(env_id: str, copies: int = 4, **settings: Any) -> Env:
    return make_env(EnvConfig(id=env_id, vector="processes", **settings), copies)


def odd(folder: Path, copies: int = 4, timeout: float = 60.0, wrappers: list[Any] | None = None, **kwargs: Any) -> Env:
    settings = {"timeout": timeout, "wrappers": wrappers or []}
    return made(ODD, copies, kwargs={"mark": str(folder / "mark"), **kwargs}, **settings)


# ---------------------------------------------------------------- the contract


@pytest.mark.parametrize(
    ("env_id", "settings"),
    [
        (SHOP, {"wrappers": [{"time_limit": 12}, {"sticky": 0.25}, "flatten"]}),
        ("zoo_worlds:make_duel", {}),
    ],
)
def test_copies_in_processes_conform(env_id: str, settings: dict[str, Any]) -> None:
    checks = check_env(lambda copies: made(env_id, copies, **settings), steps=40)
    assert [check for check in checks if not check.passed] == []


@pytest.mark.parametrize(("env_id", "kwargs"), [(SHOP, {}), ("mpe2/simple_spread_v3", {"N": 2, "max_cycles": 9})])
def test_they_live_through_what_a_loop_does(env_id: str, kwargs: dict[str, Any]) -> None:
    recordings = []
    for vector in ("loop", "processes"):
        config = EnvConfig(id=env_id, vector=vector, kwargs=kwargs)  # type: ignore[arg-type]
        with closing(make_env(config, 3, first_slot=5)) as env:
            recordings.append(play(env, lambda env=env: env.reset(4), ActionSampler(env.groups, 3, 1), 90))  # type: ignore[misc]
    one, other = recordings
    assert one.error is None
    assert first_difference(one, other) is None
    told = [
        [(e.row, e.length, e.metrics, str(e.returns)) for step in r.steps for e in step.episodes] for r in recordings
    ]
    assert told[0] == told[1]
    assert len(told[0]) >= 6
    assert one.groups == other.groups


def test_every_copy_knows_the_time_limit(tmp_path: Path) -> None:
    with closing(odd(tmp_path, seconds=0.0, wrappers=[{"time_limit": 3}])) as env:
        env.reset(0)
        steps = [copy_step(env.step(IDLE)) for _ in range(6)]
    assert [[episode.length for episode in step.episodes] for step in steps] == [[], [], [3] * 4, [], [], [3] * 4]
    assert steps[2].turns["agent"].truncated.all()


# ---------------------------------------------------------------- slow


def played(env: Env, calls: int) -> Iterator[Step]:
    """Steps of copies that are back, each checked: a copy goes on from where it was, and nothing is lost or counted twice."""
    env.waits_for_all = False
    seen = env.reset(0).turns["agent"].observation[:, 0, 0].copy()
    for _ in range(calls):
        step = env.step(IDLE)
        turn, now = step.turns["agent"], step.turns["agent"].observation[:, 0, 0]
        back = turn.acting[:, 0]
        begun = (turn.terminated | turn.truncated)[:, 0]
        np.testing.assert_array_equal(now, np.where(begun, 0, np.where(back, seen + 1, seen)))
        np.testing.assert_array_equal(turn.reward[:, 0], np.where(back & ~begun, now, 0))
        assert step.advanced == (back & ~(begun & (turn.reward[:, 0] == 0))).sum()
        seen = now.copy()
        yield step


def test_one_that_sleeps_holds_up_nobody(tmp_path: Path) -> None:
    """Its two steps take four seconds, in which the others take hundreds."""
    with closing(odd(tmp_path, seconds=2.0)) as env:
        steps = played(env, 10**6)
        next(steps)  # the processes are there
        began, counts, calls = time.monotonic(), np.zeros(4, int), 0
        while time.monotonic() - began < 4.5:
            counts += next(steps).turns["agent"].acting[:, 0]
            calls += 1
    slow, *others = sorted(counts)
    assert 1 <= slow <= 3
    assert min(others) > 30
    assert min(others) > calls / 2, "the others answer together: one at a time, each would have a third of the calls"


def test_who_waits_for_all_gets_all(tmp_path: Path) -> None:
    with closing(odd(tmp_path, seconds=0.3, each=3)) as env:
        env.reset(0)
        assert all(env.step(IDLE).turns["agent"].acting.all() for _ in range(6))


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize("how", ["sleeps", "dies"])
def test_one_that_hangs_or_dies_is_started_anew(how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(odd(tmp_path, how=how, seconds=10**6, at=4, timeout=5.0)) as env, caplog.at_level(logging.WARNING):
        began, ends, missing = time.monotonic(), [], np.zeros(4, int)
        for step in played(env, 10**6):
            turn = step.turns["agent"]
            missing += ~turn.acting[:, 0]
            if step.episodes:
                ends.append((step.episodes, turn.truncated.copy(), turn.final_observation.copy()))
                break
            assert time.monotonic() - began < 60
        env.waits_for_all = True
        env.reset(1)
        assert env.step(IDLE).advanced == 4, "and it goes on"
    (((episode,), truncated, final),) = ends
    assert truncated[:, 0].tolist() == [row == episode.row for row in range(4)]
    assert (episode.length, episode.returns["agent"].tolist()) == (3, [1.0 + 2.0 + 3.0]), "as far as it came"
    assert final[episode.row, 0, 0] == 3.0
    assert episode.metrics == {"restarts": 1.0}
    assert missing.argmax() == episode.row, "the others went on"
    assert any("started anew" in record.getMessage() for record in caplog.records)


def test_one_that_dies_again_and_again_ends_it(tmp_path: Path) -> None:
    with closing(odd(tmp_path, how="dies", every_start=True)) as env:
        env.reset(0)
        with pytest.raises(ShoalError, match=r"Odd, copy \d: its process ended, and so did 3 before it"):
            [env.step(IDLE) for _ in range(10)]


def test_an_error_names_its_copy(tmp_path: Path) -> None:
    with closing(odd(tmp_path, how="raises")) as env:
        env.reset(0)
        with pytest.raises(ShoalError, match=r"Odd, copy \d: ZeroDivisionError: its own fault"):
            env.step(IDLE)


def test_mistakes_are_those_of_a_loop(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"env\.kwargs = .*unexpected keyword"):
        made("Acrobot-v1", kwargs={"nonsense": 3})
    with pytest.raises(InputError, match=r"env\.vector = 'processes': 'shoal/chain' is a batch"):
        made("shoal/chain")


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    before = below(os.getpid())
    files = len(os.listdir("/proc/self/fd"))
    for seconds in (0.0, 10**6):
        (tmp_path / str(seconds)).mkdir()
        env = odd(tmp_path / str(seconds), seconds=seconds)
        env.waits_for_all = False
        env.reset(0)
        env.step(IDLE)
        started = below(os.getpid()) - before
        assert len(started) == 5, "a process for each copy, and the one that starts them"
        env.close()
        assert not any(map(lives, started))
    assert len(os.listdir("/proc/self/fd")) == files


SCRIPT = """
import sys, time, numpy as np
from shoal.api.experiment import EnvConfig
from shoal.envs import make_env
env = make_env(EnvConfig(id="tests.envs.slow_envs:Odd", vector="processes", kwargs={"mark": sys.argv[1], "seconds": 10**6}), 3)
env.reset(0)
env.send({"agent": np.zeros((3, 1), np.int64)})
print("ready", flush=True)
time.sleep(10**6)
"""


def test_copies_die_with_their_parent_also_those_that_hang(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "mark")], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        assert parent.stdout.readline() == "ready\n"
        started = below(parent.pid)
        assert len(started) == 4
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 5
    while any(map(lives, started)):
        assert time.monotonic() < deadline, "some are left"
        time.sleep(0.05)


# ---------------------------------------------------------------- runs


def experiment(vector: str, **rest: Any) -> Experiment:
    return Experiment.parse(
        {
            "env": {"id": SHOP, "num_envs": 4, "vector": vector, "wrappers": ["flatten", {"frame_stack": 2}]},
            "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 32},
            "model": {"name": "mlp", "hidden": [8]},
            "stop": {"updates": 4},
            "name": f"by-{vector}",
            **rest,
        }
    )


def test_runs_are_not_exact_unless_they_say_so() -> None:
    assert expand(experiment("loop")).exact
    assert not expand(experiment("processes")).exact
    assert expand(experiment("processes", placement={"exact": True})).exact


def test_an_exact_run_learns_what_a_loop_learns(tmp_path: Path) -> None:
    learned = []
    for vector in ("loop", "processes"):
        folder = train(experiment(vector, placement={"exact": True}), root=tmp_path, on="inline", quiet=True).folder
        learned.append(load(folder).policy().module.state_dict())
    one, other = learned
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_goes_on_beside_a_copy_that_sleeps(tmp_path: Path) -> None:
    run = {
        "env": {
            "id": ODD, "num_envs": 4, "vector": "processes",
            "kwargs": {"mark": str(tmp_path / "mark"), "seconds": 1.0, "each": 4, "length": 20},
        },
        "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 32},
        "model": {"name": "mlp", "hidden": [8]},
        "stop": {"updates": 10},
        "name": "beside",
    }  # fmt: skip
    began = time.monotonic()
    outcome = train(Experiment.parse(run), root=tmp_path, on="inline", quiet=True)
    assert 0.5 * 4 * 16 * 10 < outcome.steps < 4 * 16 * 10, "the slow copy took fewer steps, the others nearly all"
    assert time.monotonic() - began < 35, "waiting for it would take 40 seconds"
