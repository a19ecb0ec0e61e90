"""The command line as a user types it: a process each, its words and its exit code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from shoal.cli import main
from tests.monitoring.written import write_run

QUICK = [
    "env.num_envs=4",
    "algorithm.unroll=16",
    "algorithm.minibatch=32",
    "model.hidden=[8]",
    "stop.updates=2",
    "stop.return=null",
]


@dataclass
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


def shoal(*words: str, cwd: Path) -> Done:
    """The command as typed, in this process: starting Python and torch anew for each would take minutes."""
    out, err = io.StringIO(), io.StringIO()
    before, argv = Path.cwd(), sys.argv
    os.chdir(cwd)
    sys.argv = ["shoal", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    finally:
        os.chdir(before)
        sys.argv = argv
    return Done(code, out.getvalue(), err.getvalue())


def start(*words: str, cwd: Path) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "shoal.cli", *words]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def refused(*words: str, cwd: Path) -> str:
    """Wrong input: exit code 2, one line on stderr, nothing else."""
    done = shoal(*words, cwd=cwd)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert done.stdout == ""
    return lines[0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one quick run, cartpole/one."""
    folder = tmp_path_factory.mktemp("cli")
    done = shoal("train", "cartpole", "--trial", "one", *QUICK, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "stop.updates = 2 reached" in done.stdout
    assert "runs/cartpole/one" in done.stdout
    assert "\x1b" not in done.stdout, "plain lines when the output is no terminal"
    return folder


def test_help_is_quick_and_light(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['shoal', '--help']\n"
        "from shoal.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = [m for m in ('torch', 'numpy', 'pydantic', 'gymnasium') if m in sys.modules]\n"
        "assert not heavy, heavy"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert worked < 0.5, "seconds of work; the wall clock would count whatever else this machine does"


def test_the_run_folder(trained: Path) -> None:
    run = trained / "runs" / "cartpole" / "one"
    names = {path.name for path in run.iterdir()}
    assert {
        "config.yaml",
        "provenance.json",
        "metrics.jsonl",
        "events.jsonl",
        "tensorboard",
        "checkpoints",
        "logs",
    } <= names
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 2
    assert list((run / "logs").iterdir())
    assert not [path for path in run.rglob("*") if path.suffix in (".pkl", ".pickle", ".pt", ".pth")]


def test_evaluate(trained: Path) -> None:
    one, two = (
        json.loads(shoal("evaluate", "cartpole/one", "--episodes", "7", "--json", cwd=trained).stdout) for _ in range(2)
    )
    assert one == two
    assert set(one) == {"mean_return", "std_return", "episodes", "steps", "version", "agent_return", "game_return"}
    assert (one["episodes"], one["version"]) == (7, 2)
    assert one["steps"] == pytest.approx(7 * one["mean_return"])
    other = json.loads(
        shoal("evaluate", "runs/cartpole/one", "--episodes", "7", "--seed", "5", "--json", cwd=trained).stdout
    )
    assert other["mean_return"] != one["mean_return"]
    assert (
        "over 3 greedy episodes"
        in shoal("evaluate", "cartpole", "--episodes", "3", "--checkpoint", "2", cwd=trained).stdout
    )


def test_resume(trained: Path) -> None:
    done = shoal("train", "cartpole", "--trial", "one", "--resume", "stop.updates=3", cwd=trained)
    assert done.returncode == 0, done.stderr
    assert "3 updates" in done.stdout


def test_plan(tmp_path: Path) -> None:
    plan = json.loads(shoal("plan", "cartpole", "--json", cwd=tmp_path).stdout)
    assert plan["policies"]["agent"]["lanes"] == plan["settings"]["env"]["num_envs"]
    assert plan["settings"]["algorithm"]["clip"] == 0.2
    assert plan["memory_bytes"] > 0
    assert not (tmp_path / "runs").exists()
    shown = shoal("plan", "cartpole", cwd=tmp_path).stdout
    assert "decisions a batch" in shown
    assert "replay of" not in shown
    assert "and replay" not in shown


def test_plan_tells_the_bytes_of_replay(tmp_path: Path) -> None:
    words = ("plan", "cartpole", "algorithm.name=dqn", "algorithm.capacity=800_000", "algorithm.unroll=8")
    plan = json.loads(shoal(*words, "--json", cwd=tmp_path).stdout)
    policy, streams = plan["policies"]["agent"], sum(stream["bytes"] for stream in plan["streams"].values())
    # A sequence is 9 rows of 4 floats, an action, a reward, four flags and a version, and its lane's number.
    assert policy["bytes_of_replay"] == 100_000 * (9 * (16 + 8 + 4 + 4 + 8) + 8) == 36_800_000
    shown = shoal(*words, cwd=tmp_path).stdout
    assert "replay of 100,000 sequences, 36,800,000 bytes" in shown
    assert 0 < streams < 500_000
    assert plan["memory_bytes"] == 36_800_000 + streams
    assert re.search(rf"memory +{plan['memory_bytes'] / 1e6:.1f} MB of streams and replay", shown)


def test_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert shoal("runs", cwd=tmp_path).stdout == "there are no runs yet: train one first, e.g. shoal train cartpole\n"
    for seed, trial in enumerate(("first", "second")):
        write_run(tmp_path / "runs", f"cartpole/{trial}", [1.0, 1500.25], seed=seed, algorithm={"name": "ppo"})
    header, *lines = shoal("runs", cwd=tmp_path).stdout.splitlines()
    assert header.split() == ["run", "algorithm", "env", "state", "steps", "best", "last", "score", "age"]
    assert {line.split()[0] for line in lines} == {"cartpole/first", "cartpole/second"}
    assert lines[0].split()[1:8] == ["ppo", "CartPole-v1", "crashed", "20", "1,500.2", "1,500.2", "-"]
    (only,) = json.loads(shoal("runs", "seed=1", "name~cart", "--json", cwd=tmp_path).stdout)
    assert (only["trial"], only["steps"], only["best"]) == ("second", 20, 1500.25)
    assert shoal("runs", "state=running", cwd=tmp_path).stdout == "no run fits\n"
    assert "no run has 'stat'" in refused("runs", "stat=running", cwd=tmp_path)


def test_list(tmp_path: Path) -> None:
    listing = json.loads(shoal("list", "--json", cwd=tmp_path).stdout)
    assert {"cartpole", "cartpole-memory", "acrobot", "pendulum", "lunarlander"} <= set(listing["recipes"])
    assert "ppo" in listing["algorithms"]
    assert {"mlp", "nature", "impala", "dict", "gru", "lstm"} <= set(listing["models"])
    assert "CartPole-v1" in listing["environments"]
    assert {"normalise", "frame_stack", "time_limit"} <= set(listing["wrappers"])
    assert all(listing["wrappers"].values())
    assert all(listing["recipes"].values())


def test_check_env(tmp_path: Path) -> None:
    done = shoal("check-env", "CartPole-v1", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout
    (tmp_path / "badly_made.py").write_text(
        "import gymnasium, numpy as np\n"
        "class Bad(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        return np.full(2, 5, np.float32), {}\n"
        "    def step(self, action):\n"
        "        return np.full(2, 5, np.float32), 0.0, False, False, {}\n"
    )
    done = shoal("check-env", "badly_made:Bad", cwd=tmp_path)
    assert done.returncode == 1
    assert "FAIL" in done.stdout
    assert "Traceback" not in done.stderr


def test_your_own_file_model_and_algorithm(tmp_path: Path) -> None:
    (tmp_path / "own_parts.py").write_text(
        "import torch\n"
        "from shoal.api.policy import Model\n"
        "from shoal.algorithms.actor_critic.ppo import PPO\n"
        "from shoal.base.config import Config, Count\n"
        "class Tiny(Model):\n"
        "    class Config(Config):\n"
        "        width: Count = 4\n"
        "    def __init__(self, space, config):\n"
        "        super().__init__(space, config)\n"
        "        self.features = config.width\n"
        "        self.layer = torch.nn.Linear(space.shape[0], config.width)\n"
        "    def forward(self, observation, state, first):\n"
        "        return torch.tanh(self.layer(observation)), None\n"
        "class Mine(PPO):\n"
        "    pass\n"
    )
    (tmp_path / "own.yaml").write_text(
        "env: {id: CartPole-v1, num_envs: 4}\n"
        "algorithm: {name: own_parts.py:Mine, unroll: 16, minibatch: 32}\n"
        "model: {name: own_parts:Tiny, width: 6}\n"
        "stop: {updates: 1}\n"
    )
    done = shoal("train", "own.yaml", "--trial", "t", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert shoal("evaluate", "own/t", "--episodes", "2", cwd=tmp_path).returncode == 0
    assert "model.widht = 3: there is no such key; did you mean 'width'" in refused(
        "plan", "own.yaml", "model.widht=3", cwd=tmp_path
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "cartpol"], "there is no recipe 'cartpol'; did you mean 'cartpole'?"),
        (["train", "none.yaml"], "there is no file 'none.yaml'"),
        (["train", "cartpole", "env.id=CartPoll-v1"], "env.id = 'CartPoll-v1' is not known"),
        (
            ["train", "cartpole", "algorithm.clipp=0.1"],
            "algorithm.clipp = 0.1: there is no such key; did you mean 'clip'?",
        ),
        (["train", "cartpole", "env.num_envs=many"], "env.num_envs = 'many': should be a whole number"),
        (["train", "cartpole", "algorithm.lr=fast"], "algorithm.lr = 'fast'"),
        (["train", "cartpole", "algorithm.clip=-1"], "algorithm.clip = -1: should be greater than 0"),
        (["train", "cartpole", "algorithm.name=ppoo"], "algorithm.name = 'ppoo' is not known; did you mean 'ppo'?"),
        (["train", "cartpole", "model.name=mpl"], "model.name = 'mpl' is not known; did you mean 'mlp'?"),
        (["train", "cartpole", "--trial", "../escape"], "--trial = '../escape' cannot name a folder"),
        (["train", "cartpole", "--on", "moon"], "--on moon: there is no such launcher"),
        (["train", "cartpole", "--resume"], "--resume needs --trial"),
        (["train", "cartpole", "--trial", "x", "--resume"], "there is no trial 'x'"),
        (["train", "cartpole", "nonsense"], "'nonsense' is not an override"),
        (["evaluate", "nothing/here"], "there is no run 'nothing/here'"),
        (["check-env", "Nope-v0"], "env.id = 'Nope-v0' is not known"),
    ],
)
def test_wrong_input(tmp_path: Path, words: list[str], said: str) -> None:
    assert said in refused(*words, cwd=tmp_path)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("copies", [1, 7, 10, 33])
def test_any_number_of_copies(tmp_path: Path, copies: int) -> None:
    done = shoal("train", "cartpole", f"env.num_envs={copies}", "stop.updates=1", "--on", "inline", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "algorithm.minibatch = 256 does not divide the batch of" in done.stdout


def test_duplicate_key(tmp_path: Path) -> None:
    (tmp_path / "twice.yaml").write_text("env: {id: CartPole-v1}\nstop: {steps: 5}\nstop: {steps: 6}\n")
    line = refused("train", "twice.yaml", cwd=tmp_path)
    assert "duplicate key" in line
    assert "stop" in line


def test_one_flipped_bit_is_found(trained: Path) -> None:
    assert shoal("train", "cartpole", "--trial", "bad", *QUICK, cwd=trained).returncode == 0
    checkpoint = max((trained / "runs/cartpole/bad/checkpoints").glob("0*"))
    for name in ("state.safetensors", "manifest.json"):
        whole = (checkpoint / name).read_bytes()
        broken = bytearray(whole)
        broken[len(broken) // 3] ^= 4
        (checkpoint / name).write_bytes(broken)
        line = refused("evaluate", "cartpole/bad", cwd=trained)
        assert name in line
        refused("train", "cartpole", "--trial", "bad", "--resume", cwd=trained)
        (checkpoint / name).write_bytes(whole)
    assert shoal("evaluate", "cartpole/bad", "--episodes", "2", cwd=trained).returncode == 0


def test_exit_codes_of_real_processes(tmp_path: Path) -> None:
    process = start("train", "cartpole", "algorithm.clipp=1", cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err == "shoal: algorithm.clipp = 1: there is no such key; did you mean 'clip'?\n"


def test_interrupt(tmp_path: Path) -> None:
    process = start("train", "cartpole", "--trial", "i", "stop.return=null", "stop.steps=null", cwd=tmp_path)
    metrics = tmp_path / "runs/cartpole/i/metrics.jsonl"
    for _ in range(600):
        if metrics.exists() and metrics.stat().st_size:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "--resume" in out
    assert list((tmp_path / "runs/cartpole/i/checkpoints").iterdir())
