"""Orders to a live run beyond pause and stop: save now, evaluate now, change a setting, watch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.launchers.live import Run, experiment, train


def events(root: Path) -> list[dict[str, Any]]:
    (path,) = root.glob("*/*/events.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("on", ["inline", "local"])
def test_save_evaluate_and_change(tmp_path: Path, on: str) -> None:
    def script(run: Run) -> None:
        assert run.ask("checkpoint") == {"state": "running"}
        until(lambda: list(tmp_path.glob("*/*/checkpoints/*/manifest.json")))
        run.ask("evaluate")
        until(lambda: any(event["kind"] == "evaluation" for event in events(tmp_path)))
        run.ask("reconfigure lr=0.00025")
        until(lambda: any(event["kind"] == "reconfigured" and event["lr"] == 0.00025 for event in events(tmp_path)))
        run.ask("reconfigure lrr=1")
        until(lambda: any("is not reconfigured" in str(event.get("text")) for event in events(tmp_path)))
        for wrong, said in [
            ("reconfigure", "say what shall change"),
            ("reconfigure nobody lr=1", "name the policy"),
            ("stop it", "no order 'stop it'"),
            ("", "no order ''"),
        ]:
            assert said in run.ask(wrong)["error"]
        run.go_on()

    train(experiment(evaluation={"every": "1h", "episodes": 2}), tmp_path, script, on)
    orders = [event["order"] for event in events(tmp_path) if event["kind"] == "order"]
    assert orders[:3] == ["checkpoint", "evaluate", "reconfigure lr=0.00025"]


def test_nobody_evaluates_where_nothing_is(tmp_path: Path) -> None:
    def script(run: Run) -> None:
        assert "start it with evaluation.every" in run.ask("evaluate")["error"]

    train(experiment(), tmp_path, script, "inline")


@pytest.mark.slow
def test_a_spectator_plays_while_somebody_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    pytest.importorskip("pygame", reason="CartPole draws with it")

    def script(run: Run) -> None:
        assert run.ask("watch")["said"] == "waiting for the first checkpoint"

        def frame() -> bytes:
            run.ask("watch")
            return b"".join(path.read_bytes() for path in tmp_path.glob("*/*/watch/frame.jpg"))

        until(frame)
        first = frame()
        assert first.startswith(b"\xff\xd8")
        until(lambda: frame() not in (b"", first))

    train(experiment(), tmp_path, script)
    assert not list(tmp_path.glob("*/*/watch"))
    assert "watch" not in [event.get("order") for event in events(tmp_path)], "looking is no event"
