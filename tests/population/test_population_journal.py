"""The journal of a population: what was written is read, what was torn is cut off, what was changed is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal.base.errors import ShoalError
from shoal.population.journal import Journal


def written(path: Path, count: int = 3) -> Journal:
    journal = Journal(path / "journal.jsonl")
    journal.open()
    for number in range(count):
        journal.append("turn", member=f"m{number}", score=number + 0.1, broken=float("nan"))
    journal.close()
    return journal


def test_what_was_written_is_read(tmp_path: Path) -> None:
    lines = written(tmp_path).read()
    assert lines == [{"kind": "turn", "member": f"m{n}", "score": n + 0.1, "broken": None} for n in range(3)]
    assert Journal(tmp_path / "none.jsonl").read() == []


def test_a_line_that_is_returned_is_the_line_that_is_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.open()
    line = journal.append("copied", scores=(1, 2), value=float("inf"))
    assert journal.read() == [line]


@pytest.mark.parametrize("lost", [1, 2, 20, 60])
def test_a_torn_end_is_cut_off_and_written_over(tmp_path: Path, lost: int) -> None:
    journal = written(tmp_path)
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[:-lost])
    assert [line["member"] for line in journal.read()] == ["m0", "m1"]
    assert [line["member"] for line in journal.open()] == ["m0", "m1"]
    journal.append("turn", member="m2", score=2.1, broken=None)
    assert journal.path.read_bytes() == whole


@pytest.mark.parametrize("change", ["byte", "removed", "swapped", "checksum"])
def test_damage_before_the_end_is_an_error(tmp_path: Path, change: str) -> None:
    journal = written(tmp_path, 4)
    lines = journal.path.read_bytes().splitlines(keepends=True)
    if change == "byte":
        lines[1] = lines[1].replace(b"1.1", b"1.2")
    elif change == "removed":
        del lines[1]
    elif change == "swapped":
        lines[1], lines[2] = lines[2], lines[1]
    else:
        lines[1] = (
            json.dumps({key: value for key, value in json.loads(lines[1]).items() if key != "check"}).encode() + b"\n"
        )
    journal.path.write_bytes(b"".join(lines))
    with pytest.raises(ShoalError, match="damaged at line 2: restore it"):
        journal.read()
