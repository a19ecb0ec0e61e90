import contextlib
import hashlib
import json
import os
import platform
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from shoal.base.errors import InputError, ShoalError
from shoal.checkpoints import store as module
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.manifest import build, sealed
from shoal.checkpoints.parts import describe
from shoal.checkpoints.store import CheckpointStore, parse_which


def tensors(seed: int = 0) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return {"policy/weight": torch.randn(4, 3, generator=random), "policy/count": torch.tensor(seed)}


def filled(folder: Path, *versions: int, keep: int = 10) -> CheckpointStore:
    store = CheckpointStore(folder, keep)
    for version in versions:
        store.save(version, tensors(version), {"steps": version * 100})
    return store


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(a[k].dtype == b[k].dtype and torch.equal(a[k], b[k]) for k in a)


def damage(folder: Path, version: int) -> None:
    path = folder / f"{version:010d}" / "state.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


# ---------------------------------------------------------------- what goes in comes out


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=3)
    path = store.save(12, tensors(), {"steps": 2048, "elapsed": 0.1 + 0.2, "best": None, "name": "é"})
    assert path == tmp_path / "checkpoints" / "0000000012"
    assert sorted(file.name for file in path.iterdir()) == ["manifest.json", "state.safetensors"]
    found = store.latest()
    assert isinstance(found, Checkpoint)
    assert (found.version, found.path, found.skipped) == (12, path, [])
    assert found.meta == {"steps": 2048, "elapsed": 0.1 + 0.2, "best": None, "name": "é"}
    assert same(found.tensors, tensors())


def test_every_kind_of_tensor(tmp_path: Path) -> None:
    block = torch.arange(12, dtype=torch.float32)
    saved = {
        "transposed": block.view(3, 4).T, "strided": block[::2], "expanded": torch.ones(1).expand(5),
        "view": block[:4], "same": block[:4], "overlapping": block[2:6],
        "scalar": torch.tensor(3.5, dtype=torch.float64), "empty": torch.zeros(0, 3), "none": torch.zeros(()),
        "bool": torch.tensor([True, False]), "int64": torch.tensor([2**62, -1]),
        "uint8": torch.tensor([255], dtype=torch.uint8), "grad": torch.ones(2, requires_grad=True),
        "half": torch.ones(2, dtype=torch.bfloat16), "special": torch.tensor([float("nan"), float("inf"), -0.0]),
        "channels": torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last),
    }  # fmt: skip
    store = CheckpointStore(tmp_path)
    store.save(1, saved, {})
    found = store.latest().tensors
    assert found.keys() == saved.keys()
    for name, tensor in saved.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert ((found[name] == tensor) | (tensor != tensor)).all()
        found[name].zero_()  # writable, and nobody else's


def test_no_tensors_and_odd_counters(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(0, {}, {"by_number": {2: "a", 10: "b"}, "pair": (1, 2), "nan": float("nan")})
    meta = store.latest().meta
    assert meta["by_number"] == {"2": "a", "10": "b"}
    assert meta["pair"] == [1, 2]
    assert meta["nan"] != meta["nan"]


def test_the_manifest_tells_what_is_there(tmp_path: Path) -> None:
    path = CheckpointStore(tmp_path).save(5, tensors(), {"steps": 1})
    manifest = json.loads((path / "manifest.json").read_text())
    state = manifest["files"]["state.safetensors"]
    assert (manifest["format"], manifest["version"]) == (2, 5)
    assert abs(manifest["saved"] - time.time()) < 60
    assert state["tensors"]["policy/weight"] == {"dtype": "float32", "shape": [4, 3]}
    assert state["size"] == (path / "state.safetensors").stat().st_size
    assert state["sha256"] == hashlib.sha256((path / "state.safetensors").read_bytes()).hexdigest()


# ---------------------------------------------------------------- which ones are kept


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2, 3, 10, 20, keep=2)
    assert store.versions() == [10, 20]
    assert hidden(tmp_path) == []


def test_the_one_just_saved_is_never_pruned(tmp_path: Path) -> None:
    store = filled(tmp_path, 10, 20, 30)
    damage(tmp_path, 20)
    damage(tmp_path, 30)
    store.keep = 1
    store.save(15, tensors(15), {})
    assert store.latest().version == 15


def test_a_run_that_went_back_drops_what_was_newer(tmp_path: Path) -> None:
    store = filled(tmp_path, 10, 20, 30)
    store.drop_newer(10)
    assert store.versions() == [10]


def test_saving_a_version_again_replaces_it(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2)
    store.save(2, tensors(99), {"steps": 7})
    assert store.versions() == [1, 2]
    assert store.latest().meta == {"steps": 7}
    assert same(store.latest().tensors, tensors(99))
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("renames", [0, 1, 2, 3])
def test_replacing_leaves_no_gap_wherever_it_stops(
    tmp_path: Path, renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path, 1, 2)
    real, calls = os.rename, []

    def stop_after(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) > renames:
            raise KeyboardInterrupt
        real(source, target)

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(os, "rename", stop_after)
        store.save(2, tensors(99), {"steps": 7})
    found = CheckpointStore(tmp_path).latest()
    assert found.version == 2
    assert found.skipped == []
    assert same(found.tensors, tensors(99 if renames >= 2 else 2))
    store.save(2, tensors(100), {})
    assert same(store.latest().tensors, tensors(100))
    assert hidden(tmp_path) == []


# ---------------------------------------------------------------- damage


def test_damaged_newer_ones_are_passed_over_and_named(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2, 3, 4)
    damage(tmp_path, 4)
    (tmp_path / "0000000003" / "manifest.json").unlink()
    found = store.latest()
    assert found.version == 2
    assert [each.version for each in found.skipped] == [4, 3]
    assert "state.safetensors was changed" in found.skipped[0][1]
    assert "manifest.json cannot be read" in found.skipped[1][1]


def test_none_whole_and_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no checkpoint in .* yet: a run that goes on saves one"):
        CheckpointStore(tmp_path / "nowhere").latest()
    store = filled(tmp_path, 1, 2)
    damage(tmp_path, 1)
    damage(tmp_path, 2)
    with pytest.raises(InputError, match=r"is whole.*2: state.safetensors was changed.*1: state.safetensors"):
        store.latest()


def test_load_by_number(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2, 3)
    assert same(store.load(2).tensors, tensors(2))
    assert store.load("latest").version == 3
    with pytest.raises(InputError, match=r"no checkpoint 7 .*choose from: latest, 1, 2, 3"):
        store.load(7)
    damage(tmp_path, 2)
    with pytest.raises(InputError, match=r"checkpoint 2 is damaged: .*0000000002: state.*choose from: latest, 1, 3"):
        store.load(2)


def test_spellings_of_the_same_number_are_found_too(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    file = store.save(1, {}, {"loss": 1e-05, "exact": 0.30000000000000004}) / "manifest.json"
    raw = file.read_bytes()
    for old, new in ((b"1e-05", b"1E-05"), (b"0004", b"0005"), (b"\n", b"\r\n"), (b'"loss"', b'"lo\\u0073s"')):
        assert old in raw
        file.write_bytes(raw.replace(old, new))
        with pytest.raises(InputError, match=r"manifest\.json was changed"):
            store.load(1)


def test_any_truncation_or_addition_is_found(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    path = store.save(1, tensors(), {"steps": 4})
    for name in ("manifest.json", "state.safetensors"):
        raw = (path / name).read_bytes()
        cuts = [raw[:size] for size in range(0, len(raw), 3)]
        for changed in [*cuts, raw[:-1], raw + b"\n", raw + b"\0", b"null", b"[" * 100_000]:
            (path / name).write_bytes(changed)
            with pytest.raises(InputError, match=name):
                store.load(1)
        (path / name).write_bytes(raw)
    assert store.load(1).version == 1


def test_files_of_another_checkpoint_do_not_pass(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2)
    os.rename(tmp_path / "0000000002", tmp_path / "0000000005")
    assert store.latest().version == 1
    assert "that of version 2" in store.latest().skipped[0][1]


def test_a_newer_format_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr("shoal.checkpoints.manifest.FORMAT", 3)
        store.save(2, tensors(), {})
    for which in (2, "latest"):  # nor is it passed over as if it were damaged: going on would remove it
        with pytest.raises(
            InputError, match="checkpoint 2 is of format 3, this Shoal reads up to 2: use a newer Shoal"
        ):
            store.load(which)


def test_other_tensors_than_named_are_found(tmp_path: Path) -> None:
    import safetensors.torch

    store = CheckpointStore(tmp_path)
    path = store.save(1, tensors(), {})
    state = safetensors.torch.save({f"other.{name}": tensor for name, tensor in tensors().items()})
    entry = {"size": len(state), "sha256": hashlib.sha256(state).hexdigest(), "tensors": describe(tensors())}
    (path / "state.safetensors").write_bytes(state)
    (path / "manifest.json").write_bytes(sealed(build(1, {}, {"state.safetensors": entry})))
    with pytest.raises(InputError, match="holds other tensors"):
        store.load(1)


# ---------------------------------------------------------------- crashes, full disks, readers


def test_a_full_disk_costs_nothing_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path, 1, 2, keep=2)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ShoalError, match=r"checkpoint 3.*No space left"):
            store.save(3, tensors(), {})
    assert store.versions() == [1, 2]
    assert hidden(tmp_path) == []
    assert same(store.latest().tensors, tensors(2))


def test_what_dead_processes_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    host = platform.node()
    left = [f".tmp-{host}-{child}-new-7", f".tmp-{host}-{os.getpid()}-old-7"]
    stays = [f".tmp-{host}-{os.getppid()}-new-7", f".tmp-else{host}-{child}-new-7", "notes"]
    for name in (*left, *stays):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.safetensors").write_bytes(b"part")
    assert CheckpointStore(tmp_path).versions() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(stays)


def in_a_child(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    return child


def test_killed_at_any_moment_a_whole_one_is_left(tmp_path: Path) -> None:
    def save_for_ever() -> None:
        store = CheckpointStore(tmp_path, keep=2)
        version = store.latest().version
        while True:
            version += 1
            for _ in range(2):  # new, then replaced
                store.save(version, tensors(version), {"version": version})

    filled(tmp_path, 1)
    chance = random.Random(1)
    newest, rounds = 1, 0
    while rounds < 25 or newest < 10:
        rounds += 1
        child = in_a_child(save_for_ever)
        time.sleep(0.01 + 0.05 * chance.random())
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        found = CheckpointStore(tmp_path).latest()
        assert found.skipped == []
        assert found.version >= newest
        assert same(found.tensors, tensors(found.version))
        newest = found.version


def test_a_reader_beside_the_writer_always_finds_one(tmp_path: Path) -> None:
    def save_for_ever() -> None:
        store = CheckpointStore(tmp_path, keep=1)
        for version in range(2, 10**9):
            store.save(version, tensors(version), {})

    filled(tmp_path, 1)
    newest = 1
    child = in_a_child(save_for_ever)
    try:
        end = time.monotonic() + 0.5
        while time.monotonic() < end or newest == 1:
            found = CheckpointStore(tmp_path).latest()
            assert same(found.tensors, tensors(found.version))
            assert found.version >= newest
            newest = found.version
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


# ---------------------------------------------------------------- as a person writes it


@pytest.mark.parametrize(("text", "which"), [("latest", "latest"), ("12", 12), ("00012", 12), ("0", 0)])
def test_parse_which(text: str, which: str | int) -> None:
    assert parse_which(text) == which


@pytest.mark.parametrize("text", ["newest", "-1", "1.5", "", "../1", "١٢", "9" * 30])
def test_parse_which_lists_what_is_there(text: str) -> None:
    with pytest.raises(InputError, match="choose from: latest, 10, 20"):
        parse_which(text, [10, 20])


def test_the_store_knows_no_pickle() -> None:
    source = Path(module.__file__).read_text()
    assert "pickle" not in source
    assert "torch.load" not in source.replace("safetensors.torch.load", "")
