"""The folder of a run in two places: what changed in one is what the other lacks, whatever was appended, replaced or removed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import torch

from shoal.checkpoints.store import CheckpointStore
from shoal.monitoring.run_folder import RunFolder
from shoal.population.mirror import Outgoing, Parcel, departure, take_in


@pytest.fixture
def there(tmp_path: Path) -> RunFolder:
    (tmp_path / "there").mkdir()
    return RunFolder(tmp_path / "there")


@pytest.fixture
def home(tmp_path: Path) -> RunFolder:
    (tmp_path / "home").mkdir()
    return RunFolder(tmp_path / "home")


def append(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def contents(folder: RunFolder) -> dict[str, bytes]:
    files = [path for path in folder.path.rglob("*") if path.is_file() and "/." not in str(path)]
    return {str(path.relative_to(folder.path)): path.read_bytes() for path in files}


def save(folder: RunFolder, version: int, keep: int = 3) -> None:
    CheckpointStore(folder.checkpoints, keep).save(version, {"weights": torch.full((3,), version)}, {"steps": version})


def test_what_grew_goes_on_from_where_it_was(there: RunFolder, home: RunFolder) -> None:
    append(there.metrics, "one\n")
    outgoing = Outgoing(there)
    take_in(home, Parcel({"metrics.jsonl": (0, b"one\n")}), keep=3)
    append(there.metrics, "two\n")
    parcel = outgoing.collect()
    assert parcel == Parcel({"metrics.jsonl": (4, b"two\n")})
    take_in(home, parcel, keep=3)
    assert home.metrics.read_text() == "one\ntwo\n"
    assert outgoing.collect() == Parcel()


def test_what_was_cut_and_grew_again_is_sent_whole(there: RunFolder, home: RunFolder) -> None:
    outgoing = Outgoing(there)
    append(there.metrics, "one\ntwo\n")
    take_in(home, outgoing.collect(), keep=3)
    os.truncate(there.metrics, 4)
    append(there.metrics, "three and more\n")
    parcel = outgoing.collect()
    assert parcel.files["metrics.jsonl"][0] == 0
    take_in(home, parcel, keep=3)
    assert contents(home) == contents(there) == {"metrics.jsonl": b"one\nthree and more\n"}


def test_what_was_replaced_or_removed_or_is_in_a_folder(there: RunFolder, home: RunFolder) -> None:
    outgoing = Outgoing(there)
    there.write_config({"a": 1})
    (there.path / "tensorboard").mkdir()
    append(there.path / "tensorboard" / "events", "x")
    append(there.path / "note", "soon gone")
    take_in(home, outgoing.collect(), keep=3)
    assert contents(home) == contents(there)
    there.write_config({"a": 2})
    (there.path / "note").unlink()
    take_in(home, outgoing.collect(), keep=3)
    assert contents(home) == contents(there)
    assert b"a: 2" in home.config.read_bytes()


def test_locks_and_sockets_stay(there: RunFolder) -> None:
    outgoing = Outgoing(there)
    there.lock()
    with socket.socket(socket.AF_UNIX) as control:
        control.bind(str(there.control))
        assert outgoing.collect() == Parcel()
    there.unlock()


def test_checkpoints_arrive_whole_and_as_many_as_are_kept(there: RunFolder, home: RunFolder) -> None:
    outgoing = Outgoing(there)
    for version in (1, 2, 3, 4):
        save(there, version, keep=9)
    CheckpointStore(there.checkpoints).tag("best", 1)
    take_in(home, outgoing.collect(), keep=2)
    store = CheckpointStore(home.checkpoints)
    assert store.versions() == [1, 3, 4]
    assert store.tags() == {"best": 1}
    assert all(store.inspect(version)[1] is None for version in (1, 3, 4))
    assert outgoing.collect() == Parcel()
    save(there, 4, keep=9)
    assert list(outgoing.collect().checkpoints) == [4], "one that was written anew is another"


def test_a_run_leaves_with_its_newest_whole_checkpoint_and_those_with_a_tag(there: RunFolder, home: RunFolder) -> None:
    append(home.metrics, "row\n")
    home.videos.mkdir()
    append(home.videos / "film", "long")
    for version in (1, 2, 3, 4):
        save(home, version, keep=9)
    CheckpointStore(home.checkpoints).tag("first", 1)
    os.truncate(home.checkpoints / "0000000004" / "state.safetensors", 5)
    parcel = departure(home)
    assert list(parcel.checkpoints) == [1, 3]
    take_in(there, parcel, keep=2)
    assert CheckpointStore(there.checkpoints).latest().version == 3
    assert there.metrics.read_text() == "row\n"
    assert not there.videos.exists()


def test_a_run_that_never_came_to_a_checkpoint_begins_anew(home: RunFolder) -> None:
    append(home.metrics, "row\n")
    assert departure(home) == Parcel()
    assert not home.path.exists()
