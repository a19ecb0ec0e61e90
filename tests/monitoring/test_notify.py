"""Commands that are told of a run: real ones, which write down what they were told."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from shoal.api.experiment import Experiment, LogConfig
from shoal.base.descendants import below, lives
from shoal.base.errors import InputError, ShoalError
from shoal.monitoring import notify_watch
from shoal.monitoring.notify import Notifier
from shoal.monitoring.run_folder import RunFolder
from shoal.runs import reproduce, train
from tests.cli.test_cli import start

WRITE = (
    "import json, os, sys; "
    "facts = {name: value for name, value in os.environ.items() if name.startswith('SHOAL_')}; "
    "open(sys.argv[1], 'a').write(json.dumps(facts) + chr(10))"
)


def writes(path: Path) -> list[str]:
    """A command that adds a line of what it is told."""
    return [sys.executable, "-c", WRITE, str(path)]


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def experiment(updates: int, env: str = "CartPole-v1", **log: object) -> Experiment:
    return Experiment.parse(
        {
            "env": {"id": env, "num_envs": 4}, "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 32},
            "model": {"name": "mlp", "hidden": [8]}, "name": "pond", "stop": {"updates": updates},
            "log": {"tensorboard": False, **log},
        }
    )  # fmt: skip


def until(condition: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_end_of_a_run(tmp_path: Path) -> None:
    out = tmp_path / "told"
    settings = experiment(2, notify=[writes(out), "false", "no-such-command --loud", ["true"]])
    outcome = train.train(settings, trial="one", root=tmp_path, on="inline", quiet=True)
    (facts,) = told(out)
    assert facts["SHOAL_RUN"] == "pond/one"
    assert facts["SHOAL_FOLDER"] == str(outcome.folder)
    assert (facts["SHOAL_EVENT"], facts["SHOAL_REASON"]) == ("end", "stop.updates = 2 reached")
    assert (facts["SHOAL_STEP"], facts["SHOAL_UPDATE"]) == (str(outcome.steps), "2")
    problems = [event["problem"] for event in RunFolder(outcome.folder).read_events() if event.get("problem")]
    assert problems == [
        "log.notify: false failed with exit code 1",
        "log.notify: no-such-command cannot be run: No such file or directory",
    ]
    assert all(problem in (outcome.folder / "logs" / "inline.log").read_text() for problem in problems)


def test_a_run_that_fails(tmp_path: Path) -> None:
    out, game = tmp_path / "told", tmp_path / "falls.py"
    game.write_text(
        "import gymnasium\n"
        "class Falls(gymnasium.Wrapper):\n"
        "    steps = 0\n"
        "    def step(self, action):\n"
        "        self.steps += 1\n"
        "        if self.steps > 40: raise RuntimeError('it fell')\n"
        "        return super().step(action)\n"
        "def make(): return Falls(gymnasium.make('CartPole-v1'))\n"
    )
    with pytest.raises(ShoalError, match="it fell"):
        train.train(
            experiment(50, f"{game}:make", notify=[writes(out)]), trial="one", root=tmp_path, on="inline", quiet=True
        )
    (facts,) = told(out)
    assert facts["SHOAL_EVENT"] == "error"
    assert "it fell" in facts["SHOAL_REASON"]
    assert facts["SHOAL_UPDATE"] == "2"


def test_a_run_whose_main_process_is_killed(tmp_path: Path) -> None:
    out, metrics = tmp_path / "told", tmp_path / "runs" / "cartpole" / "one" / "metrics.jsonl"
    words = ["train", "cartpole", "--trial", "one", "--on", "inline", f"log.notify={json.dumps([writes(out)])}"]
    with start(*words, "stop.steps=null", "stop.return=null", cwd=tmp_path) as main:
        until(lambda: metrics.exists() and metrics.stat().st_size)
        (watch,) = below(main.pid)
        main.kill()
    until(lambda: told(out))
    (facts,) = told(out)
    assert facts["SHOAL_EVENT"] == "death"
    until(lambda: not lives(watch))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "pond", "one")


def test_a_run_that_stands_still_is_told_once_until_it_moves(folder: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "told"
    notifier = Notifier(folder, [writes(out)], after=0.3)
    notifier.progress(10, 1, "running")
    until(lambda: told(out))
    (facts,) = told(out)
    assert (facts["SHOAL_EVENT"], facts["SHOAL_STEP"]) == ("stalled", "10")
    assert facts["SHOAL_REASON"] == "no update for 0s (running)"
    time.sleep(0.6)
    assert len(told(out)) == 1
    notifier.companion.send({"step": 20, "update": 2, "state": "running"})
    until(lambda: len(told(out)) == 2)
    notifier.end("end", "done", 20, 2)
    notifier.wait()
    assert [facts["SHOAL_EVENT"] for facts in told(out)] == ["stalled", "stalled", "end"]


def test_a_paused_run_does_not_stand_still(folder: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "told"
    notifier = Notifier(folder, [writes(out)], after=0.4)
    for _ in range(10):
        notifier.companion.send({"step": 10, "update": 1, "state": "paused"})
        time.sleep(0.1)
    assert told(out) == []
    notifier.end("end", "done", 10, 1)
    notifier.wait()


def test_a_command_that_hangs_is_killed_with_what_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify_watch, "LIMIT", 0.5)
    process = notify_watch._start(["sh", "-c", "sleep 60 & sleep 60"], dict(os.environ))
    assert not isinstance(process, str)
    until(lambda: len(below(process.pid)) == 2)
    sleepers = below(process.pid)
    assert notify_watch._outcome(process, time.monotonic() + 0.1) == "took longer than 0.5 s and was killed"
    until(lambda: not any(map(lives, sleepers)))


def test_settings() -> None:
    assert LogConfig.parse({"notify": ["curl -d 'it ended' there", ["a b", "c"]]}).notify == [
        ["curl", "-d", "it ended", "there"],
        ["a b", "c"],
    ]
    assert LogConfig.parse({"notify_after": "2h"}).notify_after == 7200
    with pytest.raises(InputError, match="a command has at least one word"):
        LogConfig.parse({"notify": [""]})
    with pytest.raises(InputError, match="No closing quotation"):
        LogConfig.parse({"notify": ["say 'it"]})
    with pytest.raises(InputError, match=r"notify = 'mail me'"):
        LogConfig.parse({"notify": "mail me"})


def test_commands_in_somebody_elses_folder_do_not_run(tmp_path: Path) -> None:
    """Neither where it is looked at nor where it is started again."""
    out = tmp_path / "told"
    outcome = train.train(experiment(1), trial="one", root=tmp_path, on="inline", quiet=True)
    config = outcome.folder / "config.yaml"
    command = json.dumps([writes(out)])
    config.write_text(
        config.read_text().replace("notify: []", f"notify: {command}").replace("wandb: null", "wandb: offline")
    )
    assert Experiment.parse(RunFolder(outcome.folder).read_config()).log.notify
    from shoal.runs.load import load

    load(outcome.folder)
    plan = reproduce.plan(str(outcome.folder), root=tmp_path)
    assert plan.experiment.log == experiment(1).log
    assert told(out) == []
