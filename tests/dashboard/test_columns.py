"""Columns out of a file that grows: every row of a short one, spread rows of a long one, and never more work than what is new."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import made_runs
import numpy as np
import pytest

from shoal.dashboard.columns import Columns


def write(path: Path, rows: list[dict[str, Any]], mode: str = "a") -> None:
    with open(path, mode) as file:
        file.write("".join(f"{json.dumps(row)}\n" for row in rows))


def read(columns: Columns, path: Path) -> bool:
    with open(path, "rb") as file:
        return columns.read(file)


def test_rows_as_they_come(tmp_path: Path) -> None:
    path, columns = tmp_path / "m.jsonl", Columns()
    write(path, [{"step": 1, "a": 0.5}, {"step": 2, "b": 7, "word": "x", "yes": True}])
    assert read(columns, path)
    assert not read(columns, path), "nothing is new"
    assert columns.table(range(2)) == {"step": [1, 2], "a": [0.5, None], "b": [None, 7]}
    end = columns.end
    with open(path, "a") as file:
        file.write('{"step": 3, "a": 1')
    assert not read(columns, path), "half a line is no row"
    with open(path, "a") as file:
        file.write('.5}\n{"step": 4, "a": NaN}\nnonsense\n')
    assert read(columns, path)
    assert [columns.values["a"][i] for i in columns.rows(end)][:1] == [1.5]
    assert columns.last("a") == 1.5
    assert columns.last("b") == 7


def test_a_resumed_run_writes_its_rows_again(tmp_path: Path) -> None:
    path, columns = tmp_path / "m.jsonl", Columns()
    write(path, [{"step": i, "a": i} for i in range(10)])
    read(columns, path)
    write(path, [{"step": 5, "a": 50}, {"step": 6, "a": 60}])
    read(columns, path)
    assert columns.table(range(len(columns)))["a"] == [0, 1, 2, 3, 4, 50, 60]
    path.unlink()
    write(path, [{"step": 3, "a": 3}], "w")
    read(columns, path)
    assert columns.table(range(len(columns)))["a"] == [3], "another file now"


def test_curves_keep_what_is_extreme(tmp_path: Path) -> None:
    path, columns = tmp_path / "m.jsonl", Columns()
    values = np.sin(np.arange(3000)).round(6)
    values[1234] = 99.0
    write(
        path,
        [
            {"step": i, "update": i, "a": float(v), **({"rare": 1} if i % 1000 == 7 else {})}
            for i, v in enumerate(values)
        ],
    )
    read(columns, path)
    found = columns.curves(["a", "rare", "missing"], 300)
    assert len(found["x"]["step"]) == 300
    assert set(found["y"]) == {"a", "rare"}
    assert max(found["y"]["a"]["high"]) == 99.0
    assert found["y"]["a"]["mean"][0] == pytest.approx(values[:10].mean())
    assert sum(value is not None for value in found["y"]["rare"]["mean"]) == 3
    assert found["x"]["step"][-1] == 2999


def test_a_long_file_is_skimmed_and_looked_at_closely_where_somebody_zooms(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    made_runs.write_rows(path, 0, 40_000)
    columns = Columns(whole=1 << 18, samples=400, most=2000)
    read(columns, path)
    steps = np.array(columns.values["step"])
    assert columns.sampled
    assert 400 <= len(columns) <= 2000
    assert (np.diff(steps) > 0).all()
    assert steps[0] == 2048
    assert steps[-1] == 2048 * 40_000
    assert np.diff(steps[:300]).max() < 4 * 2048 * 40_000 / 400, "evenly spread"
    with open(path, "rb") as file:
        part = columns.stretch(file, "step", 2048 * 10_000, 2048 * 10_500)
    inside = [step for step in part.values["step"] if 2048 * 10_000 <= step <= 2048 * 10_500]
    assert len(inside) >= 200, "a hundredth of the run has more rows than the whole had there"
    made_runs.write_rows(path, 40_000, 40_100)
    read(columns, path)
    assert columns.values["step"][-1] == 2048 * 40_100


def test_a_run_may_go_on_for_ever(tmp_path: Path) -> None:
    path, columns = tmp_path / "m.jsonl", Columns(most=100)
    for begin in range(0, 5000, 50):
        write(path, [{"step": i, "a": i} for i in range(begin, begin + 50)])
        read(columns, path)
        assert len(columns) <= 100
        assert columns.values["step"][0] == 0
        assert columns.values["step"][-1] == begin + 49
        assert list(columns.values["step"]) == sorted(set(columns.values["step"]))


@pytest.mark.parametrize(
    "line",
    [
        "[1, 2]",
        "null",
        '{"step": "x"}',
        '{"a": 1}',
        '{"step": 1e999, "a": 1}',
        "{" * 5000,
        '{"step": 5, "x": ' + "9" * 500 + "}",
        '{"step": 2, "' + "k" * 5000 + '": 1}',
        json.dumps({"step": 3, **{f"k{i}": i for i in range(5000)}}),
    ],
)
def test_hostile_lines(tmp_path: Path, line: str) -> None:
    path, columns = tmp_path / "m.jsonl", Columns()
    path.write_text(f'{{"step": 1, "a": 1}}\n{line}\n{{"step": 9, "a": 2}}\n')
    read(columns, path)
    assert columns.values["a"][0] == 1
    assert len(columns.values) <= 512
    json.dumps(columns.curves(list(columns.values), 10), allow_nan=False)
    assert columns.last("a") in (1.0, 2.0)
    assert not any(math.isinf(value) for value in columns.table(range(len(columns)))["a"] if value)
