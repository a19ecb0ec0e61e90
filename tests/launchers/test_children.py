"""Environments that start processes: none outlives its worker or its run, however those end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.launchers import inline
from tests.launchers.live import Run, experiment, restarts, train
from tests.launchers.parents import Closing, left, started
from tests.launchers.processes import alive, below, family, wait_for

HERE = Path(__file__).parent


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Path]:
    """Where environments write down whom they started; in the end all are killed that a test has found alive."""
    folder = tmp_path / "pids"
    folder.mkdir()
    yield folder
    for process in alive(started(folder)):
        os.kill(process, signal.SIGKILL)


def tree(pids: Path, placement: dict[str, Any], fails: dict[str, Any] | None = None, **sections: Any) -> Any:
    kwargs = {"folder": str(pids), **(fails or {})}
    env = {"id": "tests.launchers.parents:parent", "num_envs": 2, "timeout": "2s", "kwargs": kwargs}
    return experiment(env=env, algorithm={"minibatch": 64}, placement=placement, **sections)


def test_workers_that_are_killed_or_stopped_leave_no_process(tmp_path: Path, pids: Path) -> None:
    """Neither what their environments started in their name, nor daemons; also if all die with their fork server."""
    lives = []

    def script(run: Run) -> None:
        run.go_on(1)
        lives.append(run.worker("actor-0")["pid"])
        assert {name.split(".")[1] for name in left(pids, lives[0])} == {"child", "daemon", "fork"}
        run.kill("actor-0")
        assert wait_for(lambda: not left(pids, lives[0]), 5)
        run.go_on(1)
        lives.append(run.worker("actor-0")["pid"])
        os.kill(family()[lives[1]], signal.SIGKILL)
        run.until(lambda _: run.worker("actor-0")["pid"] not in lives, "new life")
        assert wait_for(lambda: not left(pids, lives[1]), 5)
        run.go_on(1)
        lives.append(run.worker("actor-0")["pid"])
        assert wait_for(lambda: bool(left(pids, lives[2])), 20), (
            "an update may come before the new actor's environments"
        )

    train(tree(pids, {"actors": 1}), tmp_path / "runs", script)
    assert len(set(lives)) == 3
    assert not [left(pids, life) for life in lives if left(pids, life)]
    assert (pids / f"closed.{lives[2]}").exists()


@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_environments_that_fail_leave_no_process(tmp_path: Path, pids: Path, how: str) -> None:
    first = []

    def script(run: Run) -> None:
        first.append(run.worker("actor-0")["pid"])
        run.until(lambda _: run.worker("actor-0")["restarts"] > 0, "death")
        assert wait_for(lambda: not left(pids, first[0]), 5)

    outcome, _ = train(tree(pids, {"actors": 1}, {"fails": 100, "how": how}), tmp_path / "runs", script)
    assert restarts(outcome.folder)
    assert len(started(pids, first[0])) == 6
    assert (pids / f"closed.{first[0]}").exists() is (how == "raises")


def test_a_run_in_one_process_leaves_none(tmp_path: Path, pids: Path) -> None:
    """But for daemons, which this process does not adopt, and what was there before."""
    before = os.posix_spawn("/bin/sleep", ["sleep", "1000"], os.environ)
    shoal.train(tree(pids, {}, stop={"updates": 1}), root=tmp_path / "runs", on="inline", quiet=True)
    assert {name.split(".")[1] for name in left(pids)} <= {"daemon"}
    assert alive({before})
    os.kill(before, signal.SIGKILL)
    os.waitpid(before, 0)


# ---------------------------------------------------------------- closing


@pytest.mark.parametrize(("fails", "error"), [("reset", "in reset"), ("close", "in close"), ("closing", None)])
def test_every_environment_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, error: str | None
) -> None:
    """Also where another fails, while they are made or when they are closed; one that hangs there is left after a while."""
    monkeypatch.setattr(Closing, "made", 0)
    monkeypatch.setattr(inline, "CLOSING", 0.2)
    env = {"id": "tests.launchers.parents:closing", "num_envs": 3, "kwargs": {"folder": str(tmp_path), "fails": fails}}
    tree = experiment(env=env, algorithm={"minibatch": 32}, stop={"updates": 1})
    expected = nullcontext() if error is None else pytest.raises(Exception, match=error)
    with expected:
        shoal.train(tree, root=tmp_path / "runs", on="inline", quiet=True)
    closed = {path.name for path in tmp_path.glob("closed.*")}
    assert closed == {f"closed.{number}" for number in range(1, 5)}
    (log,) = tmp_path.glob("runs/base/*/logs/inline.log")
    assert ("closing the environments took longer than 0.2 s" in log.read_text()) is (fails == "closing")


# ---------------------------------------------------------------- the command


def command(tmp_path: Path, pids: Path, *words: str) -> subprocess.Popen[bytes]:
    """A run of its own, whose temporary files go where nobody else's are."""
    (tmp_path / "tmp").mkdir()
    recipe = tmp_path / "parent.yaml"
    recipe.write_text(
        f"env: {{id: '{HERE / 'parents.py'}:parent', num_envs: 2, kwargs: {{folder: '{pids}'}}}}\n"
        + "algorithm: {name: ppo, unroll: 32, minibatch: 64}\nmodel: {name: mlp, hidden: [16]}\n"
        + "log: {tensorboard: false}\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(HERE.parents[1])}
    with (tmp_path / "stderr").open("w") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "shoal.cli", "train", str(recipe), "--trial", "a", *words],
            cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=stderr,
        )  # fmt: skip


def test_the_command_leaves_none_at_all(tmp_path: Path, pids: Path) -> None:
    process = command(tmp_path, pids, "stop.updates=1", "placement.trainers=1")
    assert process.wait(60) == 0
    assert (tmp_path / "stderr").read_text() == ""
    assert {path.name.split(".")[1] for path in pids.iterdir()} >= {"child", "daemon", "fork"}
    assert not left(pids)


def test_when_the_main_process_is_killed_nothing_is_left(tmp_path: Path, pids: Path) -> None:
    """Though a worker is stopped and cannot see to it; nor does a folder stay."""
    process = command(tmp_path, pids, "placement.actors=1")
    metrics = tmp_path / "runs/parent/a/metrics.jsonl"
    assert wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0, 60)
    children = below(process.pid)
    (actor,) = {int(path.name.split(".")[0]) for path in pids.glob("*.fork.*")} & children
    os.kill(actor, signal.SIGSTOP)
    process.kill()
    process.wait(10)
    # those of the copy in the main process, which told what the spaces are: nobody is left to see to them
    for own in alive(started(pids, process.pid)):
        os.kill(own, signal.SIGKILL)
    assert wait_for(lambda: not alive(children) and not left(pids, actor), 10)
    assert wait_for(lambda: not list((tmp_path / "tmp").glob("pymp-*")), 5)
    assert (tmp_path / "stderr").read_text() == ""


ENDING = """
import os, threading
from shoal.base.descendants import children
for _ in range(400):
    process = os.fork()
    if not process:
        os._exit(0)
    thread = threading.Thread(target=os.waitpid, args=(process, 0))
    thread.start()
    while thread.is_alive():
        assert not children(process)
"""


def test_a_process_may_end_while_somebody_looks_at_its_children() -> None:
    subprocess.run([sys.executable, "-c", ENDING], check=True, timeout=60)
