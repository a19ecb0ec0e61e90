import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.base.errors import ShoalError
from shoal.monitoring.sinks import FanOut, JsonlSink, Row, TensorBoardSink


def row(step: int, **values: float | str) -> Row:
    return {"step": step, "update": step // 10, "rollout/ep_rew_mean": float(step), "time/fps": 5021.0, **values}


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard itself reads."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder))
    reader.Reload()
    return {tag: [(point.step, point.value) for point in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_jsonl_rows_are_there_before_close(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path / "metrics.jsonl")
    sink.write(row(10))
    assert read(tmp_path / "metrics.jsonl") == [row(10)]
    sink.close()


def test_jsonl_goes_on_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    sink = JsonlSink(path)
    for step in (10, 20, 30):
        sink.write(row(step))
    sink.close()
    path.write_bytes(path.read_bytes()[:-7])
    sink = JsonlSink(path, resume_step=10)
    sink.write(row(20, loss=0.5))
    sink.close()
    assert read(path) == [row(10), row(20, loss=0.5)]


def test_jsonl_names_a_full_disk(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path / "metrics.jsonl")
    with open("/dev/full", "ab") as full:
        os.dup2(full.fileno(), sink._file.fileno())
    with pytest.raises(ShoalError, match="No space left"):
        sink.write(row(10))
    with pytest.raises(ShoalError, match="No space left"):
        sink.close()


def test_tensorboard_reads_what_we_wrote(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path)
    for step in (10, 20):
        sink.write({**row(step), "train/loss": 0.25, "note/text": "words", "plain": 3.0})
    assert curves(tmp_path)["rollout/ep_rew_mean"] == [(10, 10.0), (20, 20.0)], "before close, too"
    sink.close()
    assert set(curves(tmp_path)) == {"rollout/ep_rew_mean", "time/fps", "train/loss"}


def test_a_resumed_run_continues_the_curve(tmp_path: Path) -> None:
    for resume_step, steps in ((None, (10, 20, 30)), (10, (20, 40))):
        sink = TensorBoardSink(tmp_path, resume_step)
        for step in steps:
            sink.write(row(step))
        sink.close()
    assert [step for step, _ in curves(tmp_path)["time/fps"]] == [10, 20, 40]


class Recorder:
    def __init__(self, fails: bool = False) -> None:
        self.rows: list[Row] = []
        self.closed = 0
        self.fails = fails

    def write(self, row: Row) -> None:
        self.rows.append(row)

    def close(self) -> None:
        self.closed += 1
        if self.fails:
            raise ShoalError("cannot close")


def test_fan_out_reaches_everyone() -> None:
    sinks = [Recorder(), Recorder(fails=True), Recorder()]
    fan = FanOut(sinks)
    fan.write(row(10))
    with pytest.raises(ShoalError, match="cannot close"):
        fan.close()
    assert all(sink.rows == [row(10)] and sink.closed == 1 for sink in sinks)


def test_importing_monitoring_loads_nothing_heavy() -> None:
    modules = "aggregate, event_file, jsonl, progress, run_folder, sinks, terminal"
    heavy = ("torch", "tensorboard", "rich", "google.protobuf", "safetensors", "tensorflow", "gymnasium")
    code = (
        f"import sys; from shoal.monitoring import {modules};"
        "from shoal.checkpoints import store; from shoal.runs import provenance;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_score_lies_at_the_steps_of_its_version(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path)
    sink.write({**row(30), "eval/mean_reward": 7.0, "eval/steps": 10})
    sink.write({**row(40), "eval/mean_reward": 8.0})  # of a confirmation, which is of the row's own version
    sink.close()
    read = curves(tmp_path)
    assert read["eval/mean_reward"] == [(10, 7.0), (40, 8.0)]
    assert [step for step, _ in read["time/fps"]] == [30, 40]
