"""Files beside the state: large parts that not every reader wants."""

import gc
import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from shoal.base.errors import InputError
from shoal.checkpoints.parts import write_tensors
from shoal.checkpoints.store import CheckpointStore

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.float16, torch.bfloat16, torch.uint32, torch.int32,
    torch.float32, torch.uint64, torch.int64, torch.float64, torch.complex64,
]  # fmt: skip


def extras() -> dict[str, dict[str, Tensor]]:
    return {
        "replay.safetensors": {"rows": torch.arange(12.0).reshape(3, 4), "keys": torch.arange(5)},
        "actor-0.safetensors": {"é": torch.tensor([True, False])},
    }


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(a[k].dtype == b[k].dtype and torch.equal(a[k], b[k]) for k in a)


def test_extras_come_back_as_they_were(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    path = store.save(1, {"w": torch.ones(2)}, {}, extras=extras())
    found = store.latest()
    assert found.extras == ["actor-0.safetensors", "replay.safetensors"]
    assert same(found.tensors, {"w": torch.ones(2)})
    for name, tensors in extras().items():
        assert same(found.extra(name), tensors)
        assert same(safetensors.torch.load_file(path / name), tensors)
    named = json.loads((path / "manifest.json").read_text())["files"]
    assert named["replay.safetensors"]["tensors"]["rows"] == {"dtype": "float32", "shape": [3, 4]}
    with pytest.raises(
        InputError, match=r"checkpoint 1 has no 'repay.safetensors'; did you mean 'replay.safetensors'\?"
    ):
        found.extra("repay.safetensors")


def test_what_is_read_can_be_written_to(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(1, {}, {}, extras=extras())
    rows = store.latest().extra("replay.safetensors")["rows"]
    rows.zero_()
    assert same(store.latest().extra("replay.safetensors"), extras()["replay.safetensors"])


def test_an_extra_outlives_its_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    store.save(1, {}, {}, extras=extras())
    found = store.latest()
    tensors = found.extra("replay.safetensors")
    store.save(2, {}, {})
    gc.collect()
    assert same(tensors, extras()["replay.safetensors"])
    with pytest.raises(InputError, match="checkpoint 1 was removed meanwhile"):
        found.extra("replay.safetensors")


def test_a_damaged_extra_is_named_when_it_is_read_and_not_before(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    file = store.save(1, {"w": torch.ones(2)}, {}, extras=extras()) / "replay.safetensors"
    raw = file.read_bytes()
    for changed, said in ((raw[:-1], "bytes instead of"), (raw[:-1] + b"!", "was changed"), (None, "cannot be read")):
        file.write_bytes(changed) if changed is not None else file.unlink()
        found = store.load("latest")
        with pytest.raises(InputError, match=f"checkpoint 1 is damaged: .*replay.safetensors.*{said}"):
            found.extra("replay.safetensors")
        assert same(found.extra("actor-0.safetensors"), extras()["actor-0.safetensors"])


@pytest.mark.parametrize("name", ["state.safetensors", "manifest.json", "../x", "", ".hidden"])
def test_names_that_are_refused_for_extras(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is no name for a file|cannot name a folder"):
        CheckpointStore(tmp_path).save(1, {}, {}, extras={name: {}})
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- the file format


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_both_sides_agree_with_the_library(tmp_path: Path, dtype: torch.dtype) -> None:
    block = torch.arange(24).to(dtype)
    tensors = {"flat": block, "cube": block.reshape(2, 3, 4), "none": block[:0].reshape(0, 7), "one": block[5].clone()}
    entry = write_tensors(tmp_path / "ours", {**tensors, "turned": block.reshape(4, 6).T})
    theirs = safetensors.torch.load_file(tmp_path / "ours")
    assert same(theirs, {**tensors, "turned": block.reshape(4, 6).T})
    assert entry["size"] == (tmp_path / "ours").stat().st_size
    store = CheckpointStore(tmp_path / "store")
    store.save(1, tensors, {})
    assert same(store.latest().tensors, tensors)


def test_large_tensors_are_written_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.checkpoints.parts._PIECE", 1000)
    large = {"large": torch.randn(12_345), "small": torch.zeros(3, dtype=torch.uint8)}
    write_tensors(tmp_path / "file", large)
    assert same(safetensors.torch.load_file(tmp_path / "file"), large)


@pytest.mark.parametrize(
    "header",
    [
        {"w": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}},
        {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"w": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}},
        {"w": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}},
        {"w": {"dtype": "F32", "shape": [1]}},
        {"w": 3},
        [],
    ],
)
def test_a_file_that_was_forged_is_refused(tmp_path: Path, header: Any) -> None:
    """Sums prove that nothing was changed, not that its writer meant well."""
    import hashlib

    from shoal.checkpoints.manifest import build, sealed

    store = CheckpointStore(tmp_path)
    path = store.save(1, {"w": torch.ones(1)}, {})
    text = json.dumps(header).encode()
    raw = len(text).to_bytes(8, "little") + text + bytes(4)
    tensors = {"w": {"dtype": "float32", "shape": [1]}}
    entry = {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "tensors": tensors}
    (path / "state.safetensors").write_bytes(raw)
    (path / "manifest.json").write_bytes(sealed(build(1, {}, {"state.safetensors": entry})))
    with pytest.raises(InputError, match="state.safetensors is no safetensors file"):
        store.load(1)
