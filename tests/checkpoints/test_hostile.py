"""Checkpoints that somebody else made: pipes, devices and links for files, manifests that were forged, and those of another run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from shoal.base.errors import InputError
from shoal.checkpoints.manifest import proven, sealed
from shoal.checkpoints.store import CheckpointStore

pytestmark = pytest.mark.timeout(30)
REPLAY = "replay.safetensors"


def filled(folder: Path, *versions: int, keep: int = 3) -> CheckpointStore:
    store = CheckpointStore(folder, keep)
    for version in versions:
        extras = {REPLAY: {"rows": torch.arange(9.0)}}
        store.save(version, {"w": torch.full((3,), float(version))}, {"steps": 100 * version}, extras)
    return store


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def as_link(path: Path) -> None:
    kept = path.with_name("kept")
    kept.write_bytes(b"")
    path.symlink_to(kept)


KINDS = [as_pipe, as_device, as_link, Path.mkdir]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("name", ["manifest.json", "state.safetensors", REPLAY, "../tags/mine"])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    store = filled(tmp_path, 1)
    store.tag("mine", 1)
    file = tmp_path / "0000000001" / name
    file.unlink()
    make(file)
    with pytest.raises(InputError, match=rf"damaged: .*{file.name} cannot be read \(it is no regular file\)"):
        store.load("mine").extra(REPLAY)
    if file.name == "mine":
        assert "no regular file" in store.damaged_tags()["mine"]
    else:
        assert "no regular file" in (store.inspect(1)[1] or "")
    filled(tmp_path, 2, 3, 4, 5)  # a run that goes on there is not held up


def forge(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A manifest with a checksum that is right."""
    path = folder / "0000000001" / "manifest.json"
    manifest = proven(path.read_bytes(), "it")
    change(manifest)
    path.write_bytes(sealed(manifest))


def leading_to(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: manifest["files"].update({name: manifest["files"]["state.safetensors"]})


FORGERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a path up": leading_to("../../../etc/passwd"),
    "a path from the root": leading_to("/dev/zero"),
    "a path to the folder": leading_to(".."),
    "no files": lambda manifest: manifest.pop("files"),
    "files as a list": lambda manifest: manifest.update(files=[]),
    "no state": lambda manifest: manifest["files"].pop("state.safetensors"),
    "a format in words": lambda manifest: manifest.update(format="two"),
    "no format": lambda manifest: manifest.pop("format"),
    "format 0": lambda manifest: manifest.update(format=0),
    "format 1 without its keys": lambda manifest: manifest.update(format=1),
    "a version in words": lambda manifest: manifest.update(version="1"),
    "no meta": lambda manifest: manifest.pop("meta"),
    "steps in words": lambda manifest: manifest["meta"].update(steps="many"),
    "a time after all times": lambda manifest: manifest.update(saved=10**18),
    "no size": lambda manifest: manifest["files"]["state.safetensors"].pop("size"),
    "no tensors": lambda manifest: manifest["files"]["state.safetensors"].pop("tensors"),
    "a negative shape": lambda manifest: manifest["files"]["state.safetensors"]["tensors"]["w"].update(shape=[-3]),
}


@pytest.mark.parametrize("how", FORGERIES)
def test_a_forged_manifest_is_refused(tmp_path: Path, how: str) -> None:
    store = filled(tmp_path, 1)
    forge(tmp_path, FORGERIES[how])
    with pytest.raises(InputError, match="manifest.json is none of Shoal's"):
        store.load(1)
    assert store.inspect(1) == (None, "manifest.json is none of Shoal's")
    with pytest.raises(InputError, match="no checkpoint in .* is whole"):
        store.latest()


@pytest.mark.parametrize("name", ["state.safetensors", REPLAY])
def test_a_gigantic_file_is_refused_unread(tmp_path: Path, name: str) -> None:
    """200 GB that take no room on the disk."""
    store, size = filled(tmp_path, 1), 200 << 30
    os.truncate(tmp_path / "0000000001" / name, size)
    forge(tmp_path, lambda manifest: manifest["files"][name].update(size=size))
    assert f"{name} is no safetensors file: it has 214,748,364,800 bytes" in (store.inspect(1)[1] or "")
    with pytest.raises(InputError, match="is no safetensors file"):
        store.load(1).extra(REPLAY)


def test_a_state_beyond_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path, 1)
    monkeypatch.setattr("shoal.checkpoints.parts._memory", lambda: 20)
    with pytest.raises(InputError, match="more than this machine's memory"):
        store.load(1)


@pytest.mark.parametrize("name", ["manifest.json", "../tags/mine"])
def test_a_gigantic_text_is_refused_unread(tmp_path: Path, name: str) -> None:
    store = filled(tmp_path, 1)
    store.tag("mine", 1)
    os.truncate(tmp_path / "0000000001" / name, 200 << 30)
    with pytest.raises(InputError, match=r"cannot be read \(it has more than 64 MB\)"):
        store.load("mine")


def test_a_tag_without_a_version_is_damaged(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    store.tag("mine", 1)
    (tmp_path / "tags/mine").write_bytes(sealed({"name": "mine"}))
    with pytest.raises(InputError, match="tags/mine names no version"):
        store.load("mine")


# ---------------------------------------------------------------- of another run


def test_a_checkpoint_of_another_run_is_told_apart(tmp_path: Path) -> None:
    ours, theirs = filled(tmp_path / "ours", 1, 2), filled(tmp_path / "theirs", 1, 2, 3)
    shutil.copytree(theirs.path(3), ours.path(3))
    found = ours.latest()
    assert found.version == 2
    assert "is of another run" in found.skipped[0].damage
    with pytest.raises(InputError, match="is of another run"):
        ours.load(3)


def test_a_run_that_was_moved_or_copied_knows_its_own(tmp_path: Path) -> None:
    filled(tmp_path / "ours", 1, 2)
    shutil.copytree(tmp_path / "ours", tmp_path / "copy")
    assert filled(tmp_path / "copy", 3).latest().version == 3
    assert CheckpointStore(tmp_path / "copy").load(2).version == 2


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(b"{}"), lambda path: os.truncate(path, 7)]
)
def test_a_lost_identity_costs_no_checkpoint(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    store = filled(tmp_path, 1, 2)
    damage(tmp_path / "run.json")
    assert store.latest().version == 2
    filled(tmp_path, 3)
    assert [store.load(version).version for version in (1, 2, 3)] == [1, 2, 3]


# ---------------------------------------------------------------- links to checkpoints


def test_a_checkpoint_that_is_kept_elsewhere_loses_its_link_alone(tmp_path: Path) -> None:
    store = filled(tmp_path / "run", 1, 2, keep=2)
    elsewhere = tmp_path / "elsewhere"
    shutil.move(store.path(1), elsewhere)
    store.path(1).symlink_to(elsewhere)
    assert store.load(1).version == 1
    store = filled(tmp_path / "run", 3, 4, keep=2)
    assert store.versions() == [3, 4]
    assert (elsewhere / "state.safetensors").is_file()


def test_a_link_to_nowhere_is_no_checkpoint(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2)
    (tmp_path / "0000000003").symlink_to(tmp_path / "nowhere")
    (tmp_path / "0000000004").write_bytes(b"")
    assert store.versions() == [1, 2]
    assert filled(tmp_path, 3, 4).latest().version == 4


# ---------------------------------------------------------------- what a run goes on from


@pytest.mark.parametrize("name", ["manifest.json", "state.safetensors", REPLAY])
def test_damage_in_any_file_falls_back_to_the_next_older(tmp_path: Path, name: str) -> None:
    store = filled(tmp_path, 1, 2, 3)
    path = store.path(3) / name
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    found = store.latest()
    assert found.version == 2
    ((version, damage, steps),) = found.skipped
    assert (version, steps) == (3, None if name == "manifest.json" else 300)
    assert damage.startswith(f"{name} was changed")
