from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from shoal.base.packing import pack, unpack
from shoal.base.tree import tree_leaves

RECORD = np.dtype([("x", np.float32, (2, 3)), ("done", np.bool_), ("inner", [("a", np.int64)])], align=True)


def through_a_file(tree: Any) -> Any:
    return unpack(safetensors.numpy.load(safetensors.numpy.save(pack(tree))))


def test_what_was_packed_is_unpacked() -> None:
    tree = {
        "a": np.arange(6, dtype=np.int32).reshape(2, 3),
        "deep": ({"b": np.array(3.5)}, None, (1, True, 2.5, "word"), ()),
        "empty": np.zeros((0, 4), np.uint8),
        "none": None,
    }
    again = through_a_file(tree)
    assert again["deep"][1:] == (None, (1, True, 2.5, "word"), ())
    assert again["none"] is None
    leaves = dict(tree_leaves({key: tree[key] for key in ("a", "empty")}))
    for path, leaf in leaves.items():
        assert again[path].dtype == leaf.dtype
        np.testing.assert_array_equal(again[path], leaf)
    assert again["deep"][0]["b"].shape == ()
    assert float(again["deep"][0]["b"]) == 3.5


def test_records_come_back_as_they_lay() -> None:
    records = np.zeros((3, 2), RECORD)
    records["x"] = np.arange(36).reshape(3, 2, 2, 3)
    records["inner"]["a"] = 7
    again = through_a_file({"records": records})["records"]
    assert again.dtype == RECORD
    assert again.shape == (3, 2)
    assert again.tobytes() == records.tobytes()


def test_columns_stay_columns() -> None:
    """A product with a matrix that lies otherwise has other last bits."""
    columns = np.asfortranarray(np.random.default_rng(1).random((16, 4)))
    again = through_a_file((columns,))[0]
    assert again.flags.f_contiguous
    assert not again.flags.c_contiguous
    np.testing.assert_array_equal(again, columns)


def test_what_cannot_be_written_down_is_named() -> None:
    with pytest.raises(TypeError, match="a set cannot be written down"):
        pack({"a": {1, 2}})
