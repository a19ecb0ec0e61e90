"""A terminal that closes: a run in it ends in order with a checkpoint, and one that was left with `--detach` goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.base.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_WRONG_INPUT
from shoal.checkpoints.store import CheckpointStore
from shoal.monitoring.run_folder import RunFolder
from shoal.runs.panel import ask
from tests.launchers.processes import alive, below, wait_for

SHOAL = [sys.executable, "-m", "shoal.cli"]
TRAIN = [*SHOAL, "train", "cartpole", "--trial", "a"]
FOR_EVER = ["stop.return=null", "stop.steps=null", "log.tensorboard=false", "placement.actors=1"]


class Terminal:
    """A command that is the leader of a session with a terminal of its own."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self._master, slave = os.openpty()
        code = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            cwd=folder, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**os.environ, "TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        os.close(slave)

    def read(self) -> str:
        """All that is said until the command ends."""
        said = b""
        while True:
            try:
                said += os.read(self._master, 65536)
            except OSError:  # nobody has it open any more
                return said.decode()

    def close(self) -> None:
        """Hang up: the leader gets SIGHUP from the kernel; its group gets one too, as shells send it, and again as they end."""
        os.close(self._master)
        for _ in range(2):
            time.sleep(0.05)
            os.killpg(self.process.pid, signal.SIGHUP)


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def update(folder: Path) -> int:
    return int(ask(RunFolder(folder), "status")["update"])


@pytest.fixture
def left() -> Iterator[list[int]]:
    """Processes that a test leaves to themselves: if it fails, they end with it."""
    processes: list[int] = []
    yield processes
    for process in alive({*processes, *(child for each in processes for child in below(each))}):
        os.kill(process, signal.SIGKILL)


def test_a_run_whose_terminal_closes_saves_and_ends(tmp_path: Path) -> None:
    terminal, folder = Terminal([*TRAIN, *FOR_EVER], tmp_path), tmp_path / "runs/cartpole/a"
    metrics = folder / "metrics.jsonl"
    assert wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0, 60)
    children = below(terminal.process.pid)
    assert len(children) >= 3
    terminal.close()
    try:
        assert terminal.process.wait(20) == EXIT_INTERRUPTED
    finally:
        terminal.process.kill()
    last = events(folder)[-1]
    assert (last["kind"], last["reason"]) == ("stop", "interrupted by SIGHUP")
    assert CheckpointStore(folder / "checkpoints").latest().version == last["update"] > 0
    assert not [event for event in events(folder) if "was started again" in event.get("text", "")]
    assert wait_for(lambda: not alive(children), 5)


def test_a_run_that_is_left_goes_on_without_its_terminal(tmp_path: Path, left: list[int]) -> None:
    terminal = Terminal([*TRAIN, "--detach", *FOR_EVER], tmp_path)
    said = terminal.read().replace("\r", "")
    assert terminal.process.wait(10) == EXIT_DONE, said
    found = re.search(
        r"left to itself: (runs/cartpole/a)    process: (\d+)    output: (runs/cartpole/a/logs/output.log)\n", said
    )
    assert found is not None, said
    process, folder, output = int(found[2]), tmp_path / found[1], tmp_path / found[3]
    left.append(process)
    assert said.startswith("cartpole: ppo, seed 1 -> runs/cartpole/a\n")
    assert "status runs/cartpole/a    end it: " in said
    os.close(terminal._master)
    before = update(folder)
    assert os.getsid(process) == process != terminal.process.pid
    assert wait_for(lambda: update(folder) > before + 3, 30)
    status = subprocess.run([*SHOAL, "status", "cartpole/a"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert status.stdout.startswith("cartpole/a is running\n")
    assert re.search(rf"process +{process}\n", status.stdout)
    children = below(process)
    subprocess.run([*SHOAL, "stop", "cartpole/a"], cwd=tmp_path, capture_output=True, check=True)
    assert wait_for(lambda: not alive({process, *children}), 15)
    assert "stopped by order after" in output.read_text()
    assert CheckpointStore(folder / "checkpoints").latest().version == events(folder)[-1]["update"]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["cartpole"]


@pytest.mark.parametrize("wrong", ["algorithm.lr=-1", "env.id=Nowhere-v1"])
def test_what_is_wrong_is_still_told(tmp_path: Path, wrong: str) -> None:
    done = subprocess.run([*TRAIN, "--detach", wrong], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (EXIT_WRONG_INPUT, "")
    assert done.stderr.startswith(f"shoal: {wrong.split('=')[0]} = ")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_ctrl_c_while_it_starts_ends_it(tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import time\nfrom pathlib import Path\n"
        "from gymnasium.envs.classic_control.cartpole import CartPoleEnv\n"
        "class Slow(CartPoleEnv):\n"
        "    def reset(self, **words):\n"
        "        Path('begun').touch()\n"
        "        time.sleep(60)\n"
    )
    words = [*TRAIN, "--detach", f"env.id={slow}:Slow"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert wait_for((tmp_path / "begun").exists, 30)
    children, pressed = below(process.pid), time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (EXIT_INTERRUPTED, "")
    assert time.monotonic() - pressed < 10
    assert wait_for(lambda: not alive(children), 5)
    assert not (tmp_path / "runs").exists()


def test_each_life_of_a_run_has_an_output_of_its_own(tmp_path: Path, left: list[int]) -> None:
    inline = [*TRAIN, "--detach", "--on", "inline", "stop.return=null", "env.num_envs=4", "algorithm.unroll=16"]
    for updates, more in ((2, []), (4, ["--resume"])):
        words = [*inline, *more, f"stop.updates={updates}"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == EXIT_DONE, done.stderr
        left.append(int(re.findall(r"process: (\d+)", done.stdout)[0]))
        assert wait_for(lambda: not alive(set(left)), 30)
    logs = tmp_path / "runs/cartpole/a/logs"
    assert "stop.updates = 2 reached" in (logs / "output.log").read_text()
    assert "stop.updates = 4 reached" in (logs / "output-2.log").read_text()
