"""Callbacks hear of rows, scores and checkpoints in this very process, may end the run, and may fail without harm to it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from shoal.api.callback import Callback, CheckpointEvent, EvaluationEvent, UpdateEvent
from shoal.api.experiment import Experiment
from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore
from shoal.runs.outcome import Outcome
from shoal.runs.train import resume, train

SHAPES = {"inline": {}, "local": {"placement": {"actors": 1}}}


def run(root: Path, on: str, *callbacks: Callback, **rest: Any) -> Outcome:
    values = {
        "env": {"id": "CartPole-v1", "num_envs": 4},
        "algorithm": {"name": "ppo", "unroll": 8, "minibatch": 32},
        "model": {"name": "mlp", "hidden": [8]},
        "stop": {"updates": 6},
        "name": "x",
        **SHAPES[on],
        **rest,
    }
    return train(Experiment.parse(values), trial="one", root=root, on=on, quiet=True, callbacks=callbacks)


class Diary(Callback):
    """Keeps all."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.processes: set[int] = set()

    def _keep(self, event: Any) -> None:
        self.events.append(event)
        self.processes.add(os.getpid())

    on_update = on_evaluation = on_checkpoint = _keep  # type: ignore[assignment]

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.mark.parametrize("on", SHAPES)
def test_everything_is_told_in_its_order(on: str, tmp_path: Path) -> None:
    diary = Diary()
    beside = {"evaluation": {"every": "3 updates", "episodes": 4}, "checkpoint": {"every": "2 updates"}}
    outcome = run(tmp_path, on, diary, **beside)
    rows = [json.loads(line) for line in (outcome.folder / "metrics.jsonl").read_text().splitlines()]
    updates = diary.of(UpdateEvent)
    assert [event.metrics for event in updates] == rows
    assert [(event.version, event.steps) for event in updates] == [(row["update"], row["step"]) for row in rows]
    assert [event.version for event in updates[:6]] == [1, 2, 3, 4, 5, 6]
    assert diary.processes == {os.getpid()}
    saved = diary.of(CheckpointEvent)
    assert [event.version for event in saved][-1] == 6
    assert all(event.path.name == f"{event.version:010d}" for event in saved)
    assert saved[-1].path.is_dir()
    scores = diary.of(EvaluationEvent)
    assert scores[0].best
    assert scores[-1].version == 6
    assert all(len(event.returns) == 4 and event.mean == sum(event.returns) / 4 for event in scores)


class Enough(Callback):
    """Ends the run with its third version."""

    def on_update(self, event: UpdateEvent) -> str | None:
        return "the third will do" if event.version >= 3 else None


@pytest.mark.parametrize("on", SHAPES)
def test_a_text_ends_the_run(on: str, tmp_path: Path) -> None:
    outcome = run(tmp_path, on, Enough(), stop={"updates": 10_000})
    assert outcome.reason == "stopped by Enough.on_update: the third will do"
    assert 3 <= outcome.version < 100
    assert CheckpointStore(outcome.folder / "checkpoints").latest().version == outcome.version


class Broken(Callback):
    """Fails in one of its methods."""

    def __init__(self, method: str) -> None:
        self.calls = 0

        def fail(event: Any) -> None:
            self.calls += 1
            raise ZeroDivisionError(f"in {method}")

        setattr(self, method, fail)


@pytest.mark.parametrize("on", SHAPES)
@pytest.mark.parametrize("method", ["on_update", "on_evaluation", "on_checkpoint"])
def test_what_a_callback_raises_ends_the_run_in_order(method: str, on: str, tmp_path: Path) -> None:
    """With a checkpoint, an event that says why, and an error that is the user's own; then the run goes on without it."""
    broken, diary = Broken(method), Diary()
    beside = {"evaluation": {"every": "2 updates", "episodes": 2}, "checkpoint": {"every": "1 updates"}}
    with pytest.raises(ZeroDivisionError, match=f"in {method}"):
        run(tmp_path, on, broken, diary, stop={"updates": 10_000}, **beside)
    assert broken.calls == 1
    folder = tmp_path / "x" / "one"
    stop = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()][-1]
    assert stop["kind"] == "stop"
    assert stop["reason"] == f"stopped by Broken.{method}: ZeroDivisionError: in {method}"
    version = CheckpointStore(folder / "checkpoints").latest().version
    assert version == stop["update"]
    after = resume("x", "one", root=tmp_path, on=on, quiet=True, overrides=[f"stop.updates={version + 2}"])
    assert after.version == version + 2


class Agrees(Callback):
    """As a callback of stable-baselines3 would."""

    def on_update(self, event: UpdateEvent) -> Any:
        return True


def test_another_answer_is_an_error_that_says_what_to_return(tmp_path: Path) -> None:
    said = "Agrees.on_update returned True: return None to go on, or a text that says why to stop"
    with pytest.raises(TypeError, match=said):
        run(tmp_path, "inline", Agrees())


def test_what_cannot_be_called_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no shoal.Callback: make a subclass of it, and pass an instance"):
        run(tmp_path, "inline", Enough)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="--on ray decides in another: use on='local'"):
        train(Experiment(env="CartPole-v1"), root=tmp_path, on="ray", callbacks=[Enough()])
    assert not list(tmp_path.iterdir())
