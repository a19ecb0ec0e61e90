"""What travels between machines comes out as it went in, and repeated observations cost little."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("lz4.block", reason="the extra `cluster` is not installed")

from shoal.base.tree import tree_leaves, tree_map
from shoal.streams.transports.ray.wire import AGAIN, LARGE, Packer, pack_version, unpack, unpack_version


def slot(observation: np.ndarray) -> dict[str, object]:
    rows = len(observation)
    header = np.zeros((), [("rows", np.int64), ("books", np.int64, (2,))])
    header["rows"] = 7
    fragment = {
        "observation": observation,
        "reward": np.arange(rows, dtype=np.float32),
        "mask": None,
        "pair": (observation, np.ones(3, bool)),
    }
    return {"fragment": fragment, "header": header}  # fmt: skip


def assert_survives(arrays: dict[str, object], packed: list[np.ndarray]) -> None:
    into = tree_map(np.zeros_like, arrays)
    unpack(packed, into)
    for (path, was), (_, now) in zip(tree_leaves(arrays), tree_leaves(into), strict=True):
        assert was.tobytes() == now.tobytes(), path


def size(packed: list[np.ndarray]) -> int:
    return sum(part.nbytes for part in packed)


@settings(deadline=None, max_examples=40)
@given(
    dtype=st.sampled_from([np.uint8, np.float32, np.float64, np.int64, np.bool_]),
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    repeats=st.booleans(),
)
def test_every_slot_comes_out_as_it_went_in(dtype: type, shape: list[int], repeats: bool) -> None:
    random = np.random.default_rng(0)
    observation = random.integers(0, 2 if repeats else 200, shape).astype(dtype)
    arrays = slot(np.resize(observation, (40, *shape)))
    assert_survives(arrays, Packer().pack(arrays))


def test_frames_that_are_stacked_are_sent_once() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (35, 16, 84, 84), np.uint8)
    stacked = np.stack([frames[i : i + 32] for i in range(4)], 2)  # [32, 16, 4, 84, 84]
    arrays = {"observation": stacked}
    packed = Packer().pack(arrays)
    assert size(packed) < 1.02 * frames.nbytes < stacked.nbytes / 3
    assert_survives(arrays, packed)


def test_still_worlds_cost_little_and_noise_is_not_squeezed() -> None:
    still = {"observation": np.ones((64, 64, 8), np.float32)}
    assert size(Packer().pack(still)) < still["observation"].nbytes / 50
    noise = {"observation": np.random.default_rng(0).random((64, 64, 8)).astype(np.float32)}
    packed = Packer().pack(noise)
    assert size(packed) == noise["observation"].nbytes + 16
    assert_survives(noise, packed)


def test_large_arrays_travel_as_they_lie() -> None:
    random = np.random.default_rng(0)
    arrays = {
        "observation": random.integers(0, 256, LARGE, np.uint8),
        "reward": random.random(8),
        "state": random.integers(0, 256, (2, LARGE), np.uint8),
        "value": random.random(LARGE // 8 - 1),
    }
    packed = Packer().pack(arrays)
    for part, name in zip(packed[1:], ("observation", "state"), strict=True):
        assert np.shares_memory(part, arrays[name])
    assert packed[0].nbytes == 4 * 16 + 64 + LARGE - 8
    assert_survives(arrays, packed)


def test_what_did_not_pay_is_tried_again_later() -> None:
    packer = Packer()
    noise = {"observation": np.random.default_rng(0).integers(0, 256, 8192, np.uint8)}
    still = {"observation": np.zeros(8192, np.uint8)}
    packer.pack(noise)
    sizes = [size(packer.pack(still)) for _ in range(AGAIN + 1)]
    assert min(sizes[:AGAIN]) > 8192 > sizes[AGAIN]


def test_versions_travel_whole_or_halved() -> None:
    block = np.random.default_rng(0).standard_normal(100).astype(np.float32).view(np.uint8)
    assert pack_version(block, 0) is block
    packed = pack_version(block, 240)
    assert packed.nbytes == 400 - 120
    back = unpack_version(packed, 240)
    np.testing.assert_array_equal(back[240:], block[240:])
    np.testing.assert_allclose(back[:240].view(np.float32), block[:240].view(np.float32), rtol=1e-3, atol=1e-7)
