"""Actors in processes of their own: the same weights as inline, clear ends when something dies, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import shoal
from shoal.api.experiment import Experiment
from shoal.base.errors import InputError, ShoalError
from shoal.checkpoints.store import CheckpointStore
from shoal.launchers.local import cores_of
from shoal.program.expand import expand
from tests.launchers.processes import alive, below, nothing_left

MAPPO = {"critic": "central", "agent_ids": True, "normalise_values": True}


def experiment(**sections: Any) -> Experiment:
    tree: dict[str, Any] = {
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "algorithm": {"name": "ppo", "unroll": 32, "minibatch": 64, "normalise_observations": True},
        "model": {"name": "mlp", "hidden": [16]},
        "stop": {"updates": 5},
        "placement": {},
        "name": "base",
    }
    for name, values in sections.items():
        tree[name] = {**tree[name], **values}
    return Experiment.parse(tree)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return CheckpointStore(folder / "checkpoints", keep=9).latest().tensors


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.mark.parametrize(
    "sections",
    [
        {"placement": {"actors": 1}},
        {"placement": {"actors": 1, "max_lag": 1, "exact": True}},
        {"placement": {"actors": 2}},
        {"placement": {"actors": 2, "max_lag": 4, "exact": True}, "stop": {"updates": 7}},
        {"placement": {"actors": 2, "max_lag": 1, "exact": True}, "model": {"name": "gru"}},
        {"placement": {"inference": "worker"}},
        {"placement": {"actors": 2, "ring": 2, "inference": "worker", "max_lag": 1, "exact": True}},
        {"placement": {"actors": 2, "inference": "worker", "policy_workers": 2}, "model": {"name": "gru"}},
        {
            "env": {"id": "shoal/signal", "num_envs": 6},
            "algorithm": {"unroll": 8, "minibatch": 16},
            "placement": {"actors": 2, "inference": "worker"},
        },
        {
            "env": {"id": "shoal/signal", "num_envs": 6},
            "algorithm": {"unroll": 8, "minibatch": 16},
            "placement": {"actors": 1, "max_lag": 1, "exact": True},
        },
        {"env": {"id": "shoal/masked"}, "placement": {"actors": 2, "inference": "worker"}},
        {"placement": {"trainers": 2}, "algorithm": {"normalise_rewards": True}},
        {"placement": {"trainers": 2, "actors": 4, "max_lag": 1, "exact": True}, "model": {"name": "gru"}},
        {
            "env": {"id": "shoal/multi-cartpole", "num_envs": 4},
            "algorithm": {"unroll": 8, "minibatch": 16, **MAPPO},
            "placement": {"actors": 2, "ring": 2, "inference": "worker"},
        },
        {
            "env": {"id": "classic/tictactoe_v3", "num_envs": 4},
            "algorithm": {"unroll": 8, "minibatch": 16, **MAPPO},
            "placement": {"actors": 2},
        },
    ],
)
def test_local_and_inline_end_with_equal_weights(tmp_path: Path, sections: dict[str, Any]) -> None:
    tree = experiment(**sections)
    inline = shoal.train(tree, root=tmp_path / "inline", quiet=True)
    local = shoal.train(tree, root=tmp_path / "local", on="local", quiet=True)
    one, two = weights(inline.folder), weights(local.folder)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert inline.steps == local.steps


def test_how_copies_are_split_does_not_matter_to_worlds_in_a_loop(tmp_path: Path) -> None:
    """Episodes of CartPole end by termination here, so all lanes fill together and both splits post the same rows."""
    runs = [
        shoal.train(
            experiment(env={"vector": "loop"}, placement={"actors": n}, stop={"updates": 2}),
            root=tmp_path / str(n),
            on="local",
            quiet=True,
        )
        for n in (1, 2)
    ]
    one, two = (weights(run.folder) for run in runs)
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_resume_locally(tmp_path: Path) -> None:
    shoal.train(experiment(), root=tmp_path, trial="a", on="local", quiet=True)
    again = shoal.resume("base", "a", overrides=["stop.updates=8"], root=tmp_path, on="local", quiet=True)
    assert again.version == 8


def test_copies_that_cannot_be_shared(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"placement\.actors = 3 cannot share env\.num_envs = 8: try 2"):
        shoal.train(experiment(placement={"actors": 3}), root=tmp_path, on="local", quiet=True)


def notes(tmp_path: Path) -> list[str]:
    lines = next(tmp_path.glob("base/*/events.jsonl")).read_text().splitlines()
    return [event["text"] for event in map(json.loads, lines) if event["kind"] == "note"]


def test_a_world_that_keeps_failing_ends_the_run_with_its_own_words(tmp_path: Path) -> None:
    tree = experiment(
        env={"id": "tests.launchers.broken:raising", "num_envs": 2},
        algorithm={"minibatch": 32},
        stop={"updates": 50},
        placement={"actors": 1},
    )
    with pytest.raises(
        ShoalError,
        match=r"^tests.launchers.broken:raising, copy 0: ZeroDivisionError: after 50 steps \(6 crashes in a row",
    ):
        shoal.train(tree, root=tmp_path, on="local", quiet=True)
    assert len(notes(tmp_path)) == 5
    for name in ("actor-0", "local"):
        log = next(tmp_path.glob(f"base/*/logs/{name}.log")).read_text()
        assert "Traceback" in log
        assert "ZeroDivisionError" in log


def test_a_world_that_cannot_be_built_ends_the_run_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs two copies"):
        shoal.train(
            experiment(
                env={"id": "tests.launchers.broken:picky", "num_envs": 4},
                algorithm={"minibatch": 32},
                placement={"actors": 1},
            ),
            root=tmp_path,
            on="local",
            quiet=True,
        )


LONG = [
    "train", "cartpole", "--on", "local", "--trial", "t", "stop.return=null", "stop.steps=null", "placement.actors=2",
    "checkpoint.every=0.2s",
]  # fmt: skip


def started(tmp_path: Path) -> subprocess.Popen[str]:
    """A run in a process of its own, some updates old."""
    process = subprocess.Popen(
        [sys.executable, "-m", "shoal.cli", *LONG], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    metrics = tmp_path / "runs/cartpole/t/metrics.jsonl"
    for _ in range(900):
        if metrics.exists() and metrics.stat().st_size:
            return process
        time.sleep(0.1)
    process.kill()
    raise AssertionError("the run did not start")


def test_ctrl_c_saves_and_leaves_nothing(tmp_path: Path) -> None:
    process = started(tmp_path)
    children = below(process.pid)
    assert len(children) >= 3
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "--resume" in out
    rows = [json.loads(line) for line in (tmp_path / "runs/cartpole/t/metrics.jsonl").read_text().splitlines()]
    assert CheckpointStore(tmp_path / "runs/cartpole/t/checkpoints", keep=3).latest().version == rows[-1]["update"]
    time.sleep(0.5)
    assert not alive(children)


def test_killing_the_main_process_leaves_none_of_the_others(tmp_path: Path) -> None:
    process = started(tmp_path)
    children = below(process.pid)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 5
    while alive(children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(children)


def test_each_process_keeps_to_its_core(tmp_path: Path) -> None:
    """Asked to, processes in turn take the cores that there are; otherwise they may use them all."""
    every = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    for pin, told in ((True, every.split(",")), (False, [every])):
        cores = tmp_path / f"cores-{pin}"
        cores.mkdir()
        env = {"id": "tests.launchers.broken:telling", "kwargs": {"path": str(cores)}}
        model = {"name": "tests.launchers.broken:TellingModel", "path": str(cores)}
        placement = {"actors": 2, "trainers": 1, "together": False, "pin": pin}
        shoal.train(
            experiment(env=env, model=model, placement=placement, stop={"updates": 1}),
            root=tmp_path / "runs", trial=str(pin), on="local", quiet=True,
        )  # fmt: skip
        by_process = [path.read_text() for path in cores.iterdir() if path.name != str(os.getpid())]
        assert len(by_process) == 4  # the trainer has no environment, but a network
        by_process.remove(every)  # of the process that looked at the environment first
        assert set(by_process) <= set(told)
    assert cores_of(expand(in_processes(3, placement={"pin": True}))) == [
        (int(every.split(",")[number % len(every.split(","))]),) for number in range(3)
    ]


def test_pinned_by_default_where_processes_are_as_many_as_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    assert cores_of(expand(in_processes(2))) == [(3,), (5,)]
    assert cores_of(expand(in_processes(1))) == [()]
    assert cores_of(expand(in_processes(3))) == [()] * 3
    assert cores_of(expand(in_processes(2, placement={"pin": False}))) == [(), ()]
    assert cores_of(expand(in_processes(2, env={"background": True}))) == [(), ()]


def test_a_process_keeps_to_as_many_cores_as_it_has_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7})
    assert cores_of(expand(in_processes(2, placement={"threads": 2}))) == [(3, 5), (7,)]
    assert cores_of(expand(in_processes(2, placement={"threads": 3}))) == [(), ()]
    assert cores_of(expand(in_processes(1, placement={"threads": 3}))) == [()]
    assert cores_of(expand(in_processes(2, placement={"threads": 4, "pin": True}))) == [(3, 5, 7), (5,)]


def in_processes(count: int, **sections: Any) -> Experiment:
    """A trainer and so many actors that there are `count` processes."""
    placement = {"trainers": 1, "actors": max(1, count - 1), "together": count == 1, **sections.pop("placement", {})}
    tree = experiment(placement=placement, **sections)
    assert len(expand(tree).processes) == count
    return tree
