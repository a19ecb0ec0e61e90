"""The journal: what is written is read again, what is torn is cut off, what is damaged is said."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from shoal.api.env import Array
from shoal.api.league import LIVE, MATCH
from shoal.base.errors import ShoalError
from shoal.league.journal import HEADER, RECORD, Journal
from shoal.league.payoffs import Payoffs


def some_matches(count: int, seed: int = 0, members: int = 4) -> Array:
    dice = np.random.default_rng(seed)
    found = np.zeros(count, MATCH)
    found["asker"], found["opponent"] = dice.integers(0, 2, count), dice.integers(0, 2, count)
    found["measured"] = dice.integers(0, 2, count)
    found["own"] = np.where(found["measured"], dice.integers(0, members, count), LIVE)
    found["member"] = dice.integers(LIVE, members, count)
    found["earned"] = dice.integers(-2, 3, count)
    found["against"] = -found["earned"]
    found["slot"], found["episode"] = dice.integers(0, 99, count), np.arange(count)
    return found


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "league")
    journal.open()
    return journal


def test_what_is_written_is_read(journal: Journal) -> None:
    matches = some_matches(1000)
    for part in np.split(matches, [1, 400, 990]):
        journal.append(part)
    journal.decide("froze", "its first version", player="main", number=0, steps=0, version=0)
    assert (Journal(journal.folder).matches() == matches).all()
    assert journal.decisions()[0]["reason"] == "its first version"


@pytest.mark.parametrize("torn", range(1, RECORD.itemsize))
def test_a_torn_end_is_cut_off(journal: Journal, torn: int) -> None:
    matches = some_matches(20)
    journal.append(matches)
    journal.close()
    path = journal.folder / "matches.bin"
    os.truncate(path, path.stat().st_size - torn)
    assert (Journal(journal.folder).matches() == matches[:19]).all()
    again = Journal(journal.folder)
    again.open()
    again.append(matches[19:])
    assert (again.matches() == matches).all()


def test_a_file_of_which_only_the_beginning_was_written(journal: Journal) -> None:
    path = journal.folder / "matches.bin"
    for size in range(len(HEADER) + 1):
        os.truncate(path, size)
        again = Journal(journal.folder)
        again.open()
        again.append(some_matches(3))
        assert len(again.matches()) == 3
        again.close()


def test_damage_in_the_middle_is_said(journal: Journal) -> None:
    journal.append(some_matches(20))
    path = journal.folder / "matches.bin"
    raw = bytearray(path.read_bytes())
    raw[len(HEADER) + 5 * RECORD.itemsize + 9] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ShoalError, match="damaged at match 5"):
        journal.matches()


def test_a_resumed_run_goes_on_where_its_checkpoint_was(journal: Journal) -> None:
    matches = some_matches(50)
    journal.append(matches)
    for number in range(5):
        journal.decide("odds", "because", number=number)
    journal.close()
    again = Journal(journal.folder)
    again.open(30, 2)
    assert (again.matches() == matches[:30]).all()
    assert [line["number"] for line in again.decisions()] == [0, 1]


def test_a_million_matches_are_tens_of_megabytes_and_read_in_seconds(journal: Journal) -> None:
    matches = some_matches(1_000_000, members=31)
    journal.append(matches)
    assert (journal.folder / "matches.bin").stat().st_size < 50e6
    began, payoffs = time.process_time(), Payoffs()
    payoffs.add(Journal(journal.folder).matches())
    assert time.process_time() - began < 3.0
    met = (matches["asker"] != matches["opponent"]) | (matches["own"] != matches["member"])
    assert payoffs.played.sum() == 2 * met.sum()
