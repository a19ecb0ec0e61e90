"""A worker of a user's own: one file, under every launcher, killed, saved and resumed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.experiment import Experiment
from shoal.api.program import WorkerSpec
from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore
from shoal.checkpoints.worker_state import state_of
from shoal.program.expand import expand
from tests.launchers.live import Run, train
from tests.launchers.processes import nothing_left

PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "your-own-worker.md"


@pytest.fixture
def halver(tmp_path: Path) -> str:
    """The file of the documentation page, every tenth of a second instead of every ten."""
    (code,) = re.findall(r'```python title="halver.py"\n(.*?)```', PAGE.read_text(), re.S)
    path = tmp_path / "halver.py"
    path.write_text(code.replace("self.last < 10", "self.last < 0.1"))
    return f"{path}:HalverSpec"


def experiment(halver: str, **sections: Any) -> Experiment:
    tree: dict[str, Any] = {
        "env": {"id": "CartPole-v1", "num_envs": 4}, "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 32},
        "model": {"name": "mlp", "hidden": [8]}, "workers": {"halver": halver}, "log": {"tensorboard": False},
        "name": "own", "stop": {"seconds": 2.0}, "placement": {"actors": 1},
    }  # fmt: skip
    return Experiment.parse({**tree, **sections})


def rates(run: Path) -> list[float]:
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return [event["lr"] for event in events if event["kind"] == "reconfigured"]


def kept(run: Path) -> dict[str, Any]:
    return state_of(CheckpointStore(run / "checkpoints").latest(), "halver")


@pytest.mark.parametrize("on", ["inline", "local"])
def test_it_works_is_saved_and_resumes(halver: str, tmp_path: Path, on: str) -> None:
    with nothing_left():
        outcome = shoal.train(experiment(halver), trial="one", root=tmp_path / "runs", on=on, quiet=True)
    run = outcome.folder
    said = rates(run)
    assert said[:3] == [5e-4, 2.5e-4, 1.25e-4], "each order was obeyed, once and in order"
    before = kept(run)
    assert before["episodes"] > 0
    assert before["rate"] == said[-1]
    with nothing_left():
        shoal.resume("own", "one", root=tmp_path / "runs", on=on, quiet=True, overrides=["stop.seconds=4"])
    assert rates(run)[len(said)] == said[-1] / 2, "it goes on where it was, and so does the trainer"
    assert kept(run)["episodes"] > before["episodes"]


def test_it_is_started_again_when_it_is_killed(halver: str, tmp_path: Path) -> None:
    def look(run: Run) -> None:
        run.go_on()
        run.kill("halver")
        assert run.worker("halver")["restarts"] == 1
        run.go_on()

    with nothing_left():
        outcome, _ = train(experiment(halver, stop={"seconds": 60.0}), tmp_path / "runs", look)
    assert kept(outcome.folder)["episodes"] >= 0, "its next life was saved with the run"


def test_a_program_with_it_is_data(halver: str) -> None:
    program = expand(experiment(halver))
    assert [worker.kind for worker in program.workers].count("halver") == 1
    again = type(program).from_json(program.to_json())
    assert again == program


def test_what_is_no_worker_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="workers.mine = 'json:loads' is no WorkerSpec"):
        expand(experiment("x:y", workers={"mine": "json:loads"}))
    with pytest.raises(InputError, match=r"workers.actor-0: there is a worker of that name already"):
        expand(experiment("x:y", workers={"actor-0": "tests.launchers.test_own_worker:Twice"}))


class Twice(WorkerSpec):
    """Has the name of another."""

    def build(self, context: Any) -> Any:
        raise NotImplementedError
