import json
from pathlib import Path

import numpy as np
import pytest

from shoal.monitoring.jsonl import append_line, drop_later, encode_line, mend, newest_first

WHOLE = b'{"step": 1}\n{"step": 2}\n'


def strict(line: bytes) -> object:
    def refuse(word: str) -> None:
        raise ValueError(word)

    return json.loads(line, parse_constant=refuse)


def test_non_finite_numbers_become_null() -> None:
    row = {"a": float("nan"), "b": float("inf"), "c": 1.5, "d": {"e": [float("-inf"), 2]}, "f": "NaN"}
    assert strict(encode_line(row)) == {"a": None, "b": None, "c": 1.5, "d": {"e": [None, 2]}, "f": "NaN"}


def test_numpy_numbers_are_numbers() -> None:
    row = {"a": np.float32(0.5), "b": np.int64(3), "c": np.float64(2.5), "d": np.float32("nan"), "p": Path("x")}
    assert strict(encode_line(row)) == {"a": 0.5, "b": 3, "c": 2.5, "d": None, "p": "x"}


def test_appended_lines_are_whole(tmp_path: Path) -> None:
    for i in range(3):
        append_line(tmp_path / "x.jsonl", {"i": i})
    assert (tmp_path / "x.jsonl").read_bytes() == b'{"i": 0}\n{"i": 1}\n{"i": 2}\n'


@pytest.mark.parametrize("tail", [b"", b"{", b'{"step": 3', b"\0" * 5000, b"null", b"3", b"\xff\xfe"])
def test_a_torn_end_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(WHOLE + tail)
    mend(path)
    assert path.read_bytes() == WHOLE


def test_a_line_that_lacks_only_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(WHOLE + b'{"step": 3}')
    mend(path)
    assert path.read_bytes() == WHOLE + b'{"step": 3}\n'


def test_every_place_a_write_can_stop_at(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    line = encode_line({"step": 3, "rollout/ep_rew_mean": 21.3})
    for cut in range(len(line) + 1):
        path.write_bytes(WHOLE + line[:cut])
        mend(path)
        assert path.read_bytes() in (WHOLE, WHOLE + line)


def test_missing_and_empty_files_need_no_mending(tmp_path: Path) -> None:
    mend(tmp_path / "none.jsonl")
    drop_later(tmp_path / "none.jsonl", 3)
    assert not (tmp_path / "none.jsonl").exists()
    (tmp_path / "empty.jsonl").touch()
    mend(tmp_path / "empty.jsonl")
    assert (tmp_path / "empty.jsonl").read_bytes() == b""


def test_rows_beyond_the_step_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(WHOLE + b'{"step": 3}\n')
    drop_later(path, 2)
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize("block", [1, 3, 7, 64, 65536])
def test_newest_first(tmp_path: Path, block: int) -> None:
    path = tmp_path / "rows.jsonl"
    assert list(newest_first(path)) == []
    for i in range(5):
        append_line(path, {"step": i, "text": "é" * i})
    with path.open("ab") as file:
        file.write(b'{"step": 5, "te')
    rows = list(newest_first(path, block))
    assert [row["step"] for row in rows] == [4, 3, 2, 1, 0]
    assert rows[0]["text"] == "éééé"


def test_newest_first_reads_only_what_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"step": 1}\n' + b"x" * 10_000 + b'\n{"step": 2}')
    rows = newest_first(path, 16)
    assert next(rows) == {"step": 2}, "whole but for its line end"
    path.write_bytes(b"")
    assert list(rows) == []
