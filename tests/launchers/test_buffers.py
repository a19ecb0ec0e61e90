"""Replay in buffer workers: the same run in one thread and in many processes, and what a death costs."""

from __future__ import annotations

import json
import random
import re
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
from shoal.api.program import RingStream
from shoal.base.errors import InputError
from shoal.base.faults import VARIABLE
from shoal.checkpoints.store import CheckpointStore
from shoal.program.expand import expand
from shoal.program.report import plan_of
from tests.launchers import live
from tests.launchers.live import Run, check, notes, noticed_after, restarts, rows, train
from tests.launchers.processes import alive, below, nothing_left, wait_for

DQN = {"name": "dqn", "unroll": 4, "batch": 32, "updates": 4, "warmup": 128, "capacity": 2000, "prioritised": True}


def experiment(**sections: Any) -> Experiment:
    placement = {"buffers": 2, **sections.pop("placement", {})}
    return live.experiment(learns=DQN, placement=placement, **sections)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    with nothing_left():
        yield


def balanced_replay(row: dict[str, float]) -> bool:
    """Of all rows inserted: held, evicted, or lost with a shard."""
    return row["rows/inserted"] == row["rows/held"] + row["rows/evicted"] + row["rows/forgotten"]


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"algorithm": {"name": "ppo"}}, r"placement.buffers = 2: nothing is replayed here"),
        ({"placement": {"trainers": 2, "actors": 2}}, r"placement.buffers = 2 is for one trainer"),
        ({"placement": {"exact": True}}, r"never exact; remove placement.exact and max_lag"),
        ({"placement": {"max_lag": 0}}, r"never exact; remove placement.exact and max_lag"),
        ({"placement": {"actors": 1}}, r"cannot share placement.actors = 1: try actors = 2"),
        ({"algorithm": {"batch": 4}}, r"a batch has 1 sequences, and each buffer gives at least one; try 1"),
    ],
)
def test_what_cannot_be_shared_out(sections: dict[str, Any], words: str) -> None:
    if sections.get("algorithm", {}).get("name") == "ppo":
        tree = {**experiment().model_dump(), "algorithm": {"name": "ppo"}}
    else:
        tree = experiment(**sections).model_dump()
    with pytest.raises(InputError, match=words):
        expand(Experiment.parse(tree))


def test_what_is_left_out_is_filled_in() -> None:
    program = expand(experiment())
    placement = program.experiment.placement
    assert (placement.actors, placement.together, placement.exact, placement.max_lag) == (2, False, False, 1)
    plan = plan_of(program)
    assert plan["workers"]["buffer worker"] == 2
    assert (
        plan["policies"]["agent"]["bytes_of_replay"]
        > plan_of(expand(experiment(placement={"buffers": 0})))["policies"]["agent"]["bytes_of_replay"]
    )


def test_clusters_may_have_some() -> None:
    """Their streams are rings like all others, of one writer and one reader: they need not share memory with their trainer."""
    pytest.importorskip("ray")
    from shoal.launchers.ray.cluster import check_shape

    program = expand(experiment())
    check_shape(program)
    for shard in range(2):
        there, back = program.streams[f"batch/{shard}/agent"], program.streams[f"priority/{shard}/agent"]
        assert isinstance(there, RingStream)
        assert isinstance(back, RingStream)
        assert (there.writer, there.reader) == (back.reader, back.writer) == (f"buffer-agent-{shard}", "trainer")


# ---------------------------------------------------------------- runs


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return CheckpointStore(folder / "checkpoints", keep=9).latest().tensors


def test_in_one_thread_it_is_a_function_of_the_seed(tmp_path: Path) -> None:
    runs = [
        shoal.train(
            experiment(stop={"updates": 30}).model_copy(update={"seed": seed}),
            root=tmp_path / str(number),
            on="inline",
            quiet=True,
        )
        for number, seed in enumerate((3, 3, 4))
    ]
    one, two, other = (weights(run.folder) for run in runs)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("placement", [{}, {"buffers": 1, "actors": 2, "ring": 2}, {"inference": "worker"}])
def test_many_processes(tmp_path: Path, placement: dict[str, Any]) -> None:
    tree = experiment(placement=placement, stop={"updates": 60})
    outcome = shoal.train(tree, root=tmp_path, on="local", quiet=True)
    assert outcome.version == 60
    lines = rows(outcome.folder)
    last = lines[-1]
    assert all(balanced_replay(row) for row in lines)
    assert last["rows/inserted"] == last["rows/held"] + last["rows/evicted"]
    # 60 versions of 4 updates, 32 rows each; 2 rounds of slack either way, and what is on its way
    assert last["rows/inserted"] == pytest.approx(128 + 60 * 32, abs=(2 + 4) * 32)
    assert last["train/updates_per_row"] == pytest.approx(4 / 32, rel=0.15)
    assert 0 < last["replay/held"] <= last["rows/inserted"]
    told = [row for row in lines if "time/buffer_worked" in row]  # a few times a second
    assert told
    for row in told:
        assert sum(row[f"time/buffer_{state}"] for state in ("worked", "waited_input", "waited_slot")) == pytest.approx(
            1.0
        )


def test_policies_with_buffers_go_at_their_own_pace(tmp_path: Path) -> None:
    tree = experiment(env={"id": "shoal/signal", "num_envs": 4}, algorithm={"warmup": 16}, stop={"updates": 20})
    outcome = shoal.train(tree, root=tmp_path, on="local", quiet=True)
    assert outcome.version >= 20


def test_a_resumed_run_goes_on_with_what_its_buffers_held(tmp_path: Path) -> None:
    shoal.train(experiment(stop={"updates": 10}), root=tmp_path, trial="a", on="local", quiet=True)
    shoal.resume("base", "a", overrides=["stop.updates=20"], root=tmp_path, on="local", quiet=True)
    folder = tmp_path / "base" / "a"
    assert not [text for _, text in notes(folder) if "replay starts empty" in text]
    assert all(balanced_replay(row) for row in rows(folder))
    steps, held = ([row[name] for row in rows(folder)] for name in ("step", "rows/held"))
    assert steps == sorted(steps)
    assert held[10] >= held[9], "nothing was forgotten"


def test_a_resumed_run_begins_with_empty_buffers_and_says_so(tmp_path: Path) -> None:
    without = experiment(stop={"updates": 10}, checkpoint={"replay": False})
    shoal.train(without, root=tmp_path, trial="a", on="local", quiet=True)
    again = shoal.resume("base", "a", overrides=["stop.updates=20"], root=tmp_path, on="local", quiet=True)
    assert again.version == 20
    assert [text for _, text in notes(again.folder) if "replay starts empty" in text]
    steps = [row["step"] for row in rows(again.folder)]
    assert steps == sorted(steps)
    assert steps[-1] > steps[9] + 100, "the second warm-up has steps too"


# ---------------------------------------------------------------- deaths


@pytest.mark.parametrize("victim", ["buffer-agent-1", "trainer-agent-0", "actor-0"])
def test_killed_workers_are_started_again(tmp_path: Path, victim: str) -> None:
    outcome, run = train(
        experiment(checkpoint={"every": 0.5}),
        tmp_path,
        lambda run: run.kill_again_and_again(victim, 2, random.Random(1)),
    )
    check(outcome, 2)
    assert max(noticed_after(run, outcome.folder)) < 1.0
    assert all(balanced_replay(row) for row in rows(outcome.folder))


def test_a_dead_shard_costs_itself_alone_and_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed when it is full: what the other holds is untouched, and updates are made while it is gone."""
    monkeypatch.setenv(VARIABLE, "buffer-agent-0@insert=120:kill, buffer-agent-0@insert=5:raise")

    def script(run: Run) -> None:
        run.until(lambda now: sum(worker["restarts"] for worker in now["workers"]) == 2, "deaths")
        run.until(lambda now: now["replay"]["held"] > 1500, "full shards")

    outcome, _ = train(experiment(), tmp_path, script)
    check(outcome, 2)
    causes = " ".join(text for _, text in restarts(outcome.folder))
    assert re.search(r"buffer-agent-0 was started again: buffer-agent-0 ended by SIGKILL", causes)
    assert "RuntimeError: ordered by SHOAL_FAULT: buffer-agent-0@insert=5" in causes
    lines = rows(outcome.folder)
    assert all(balanced_replay(row) for row in lines)
    last = lines[-1]
    assert 500 <= last["rows/forgotten"] <= 1000 + 4 * 16, "a whole shard, and the few rows of a short life"
    assert last["rows/lost"] <= 2 * 16, "and the fragment that it held"
    least = min(row["rows/held"] for row in lines[len(lines) // 4 :])
    assert least >= 900, "the other shard was there all the time"


# ---------------------------------------------------------------- ends

LONG = [
    "train", "cartpole-dqn", "--on", "local", "--trial", "t", "stop.return=null", "stop.steps=null", "placement.buffers=2",
]  # fmt: skip


def test_ctrl_c_saves_and_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "shoal.cli", *LONG], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    metrics = tmp_path / "runs/cartpole-dqn/t/metrics.jsonl"
    try:
        assert wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0, 90)
        children = below(process.pid)
        assert len(children) >= 5
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "--resume" in out
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert CheckpointStore(metrics.parent / "checkpoints", keep=3).latest().version == lines[-1]["update"]
    time.sleep(0.5)
    assert not alive(children)
