"""What the script decides on one node, with stand-ins for Slurm's commands, Ray and the training.

`tests/cluster/test_slurm_jobs.py` shows the same with the real ones, in minutes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.launchers.slurm import script
from shoal.launchers.slurm.script import Job, Part, write

SLURM = """#!/bin/bash
echo "${0##*/} $*" >>asked
case "${0##*/} $*" in
  "squeue "*) cat state ;;
  "scontrol show hostnames"*) echo n1 ;;
  "scontrol show node"*) echo "NodeName=n1 NodeAddr=127.0.0.1 Version=1" ;;
  "scontrol requeue"*) [ ! -e refuse ] || { echo "requeue disabled" >&2; exit 1; } ;;
esac
"""
PYTHON = """#!/bin/bash
case "$*" in
  *"cluster port") echo 12345 ;;
  *"cluster address "*) echo 127.0.0.1 ;;
  *"cluster wait "*) echo "$RAY_AUTH_MODE ${LD_PRELOAD-none} $(stat -c %a "$RAY_AUTH_TOKEN_PATH")" >joined ;;
  *" start "*)
    [ ! -e no-ray ] || { echo "port taken"; exit 7; }
    while [ "$1" != --temp-dir ]; do shift; done
    mkdir "$2" && echo 127.0.0.1:5 >"$2/ray_current_cluster"
    exec sleep 60 ;;
  *" train "*)
    trap 'echo TERM >>signals' TERM
    echo "$*" >training
    until [ -e ending ]; do sleep 0.05; done
    exit "$(cat ending)" ;;
esac
"""


class Node:
    """A machine on which the script runs as job 7's batch step."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._process = folder, None
        for names, text in ((("scontrol", "scancel", "squeue"), SLURM), (("python3",), PYTHON)):
            for name in names:
                (folder / name).write_text(text)
                (folder / name).chmod(0o755)
        self.write("state", "RUNNING\n")
        self.number = f"{os.getpid()}{time.monotonic_ns() % 10**6}"
        job = Job("cartpole", "cartpole", "t", (), (Part(1, 2),), name="x")
        self.write("runs/.slurm/cartpole/t/job.sh", write(job))

    def write(self, name: str, text: str = "") -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def start(self, **environment: str) -> None:
        slurm = {"SLURM_JOB_ID": self.number, "SLURM_JOB_NODELIST": "n1", "SLURMD_NODENAME": "n1"}
        path = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        words = ["bash", "runs/.slurm/cartpole/t/job.sh"]
        env = {**os.environ, **slurm, **path, **environment}
        self._process = subprocess.Popen(
            words, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def start_training(self, **environment: str) -> None:
        self.start(**environment)
        self.wait_for("training")

    def wait_for(self, name: str, text: str = "") -> None:
        deadline = time.monotonic() + 30
        while not self.read(name) or text not in self.read(name):
            assert time.monotonic() < deadline, f"no {text} in {name}"
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, code: int | None = None) -> tuple[int, str]:
        """Let the training end with `code`; the exit code and the output of the job."""
        if code is not None:
            self.write("ending", str(code))
        assert self._process is not None
        output, _ = self._process.communicate(timeout=60)
        assert not list(Path("/tmp").glob(f"shoal-{self.number}.*"))
        assert not list((self.folder / "runs/.slurm/cartpole/t").glob("job-*/"))
        return self._process.returncode, output

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(script, "_python", lambda job: ["python3"])
    made = Node(tmp_path)
    yield made
    made.kill()


def test_a_training_that_ends(node: Node) -> None:
    node.start_training(LD_PRELOAD="libc.so.6", RAY_AUTH_TOKEN="of another")
    assert node.read("training").split()[2:] == [
        "train",
        "cartpole",
        "--trial",
        "t",
        *["--on", "ray", "--address", "127.0.0.1:5"],
    ]
    assert node.read("joined") == "token none 600\n"
    assert node.end(0) == (0, "")
    assert "requeue" not in node.read("asked")


def test_a_training_that_fails_is_not_repeated(node: Node) -> None:
    node.start_training()
    assert node.end(3)[0] == 3
    assert "requeue" not in node.read("asked")


@pytest.mark.parametrize(
    ("number", "order"),
    [(signal.SIGUSR1, "scontrol requeue"), (signal.SIGTERM, "scontrol requeue"), (signal.SIGINT, "scancel")],
)
def test_a_signal_stops_the_training_and_asks_slurm(node: Node, number: signal.Signals, order: str) -> None:
    node.start_training()
    node.signal(number)
    node.wait_for("signals")
    node.signal(signal.SIGUSR1)  # a second reason changes nothing
    assert node.end(130)[0] == 130
    assert node.read("signals") == "TERM\n"
    assert node.read("asked").splitlines()[-1] == f"{order} {node.number}"


def test_a_training_that_ends_just_in_time_is_done(node: Node) -> None:
    node.start_training()
    node.signal(signal.SIGUSR1)
    node.wait_for("signals")
    assert node.end(0)[0] == 0
    assert "requeue" not in node.read("asked")


def test_slurm_s_own_end_is_left_to_slurm(node: Node) -> None:
    """It has told the training already; a second SIGTERM would end that without a checkpoint."""
    node.start_training()
    node.write("state", "COMPLETING\n")
    node.signal(signal.SIGTERM)
    node.wait_for("asked", "squeue")
    code, said = node.end(130)
    assert (code, said) == (130, "shoal: Slurm ends the job\n")
    assert node.read("signals") == ""
    assert "requeue" not in node.read("asked")


def test_a_requeue_that_is_refused_names_the_remedy(node: Node) -> None:
    node.write("refuse", "x")
    node.start_training()
    node.signal(signal.SIGUSR1)
    node.wait_for("signals")
    assert "go on with shoal slurm submit cartpole --trial t --resume" in node.end(130)[1]


def test_ray_that_does_not_start_fails_the_job(node: Node) -> None:
    node.write("no-ray", "x")
    node.start()
    code, said = node.end()
    assert code == 1
    assert "Ray on n1 ended with code 7:\nport taken\n" in said
    assert said.endswith("shoal: the Ray head did not start: the lines above say why\n")


@pytest.mark.parametrize(
    ("file", "restarts", "resumes", "moved"),
    [
        ("checkpoints/0000000003/manifest.json", "0", True, False),
        ("config.yaml", "2", False, True),
        ("config.yaml", "0", False, False),
    ],
    ids=["checkpoint", "stopped before its first", "somebody else's"],
)
def test_what_a_job_finds(node: Node, file: str, restarts: str, resumes: bool, moved: bool) -> None:
    node.write(f"runs/cartpole/t/{file}", "x")
    node.start_training(SLURM_RESTART_COUNT=restarts)
    node.end(0)
    assert ("--resume" in node.read("training")) == resumes
    assert (node.read("runs/cartpole/t-without-checkpoint-2/config.yaml") == "x") == moved
