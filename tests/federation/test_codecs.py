"""Encodings: what is lost is known, bounded, and made up for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shoal.api.federation import FederationConfig
from shoal.federation.codecs import BLOCK, Sender, make_codec
from shoal.federation.frames import FrameError

values = st.floats(-100, 100, width=32)
ENCODINGS = ("fp32", "fp16", "int8", "top_k")


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    size = draw(st.integers(1, 2 * BLOCK + 3))
    seed = draw(st.integers(0, 2**32 - 1))
    scale = draw(st.sampled_from([1e-6, 1e-3, 1.0, 50.0]))
    random = np.random.default_rng(seed)
    base = random.normal(size=size).astype(np.float32)
    return (base + scale * random.normal(size=size)).astype(np.float32), base


@settings(deadline=None)
@given(arrays(np.float32, st.integers(0, 600), elements=st.floats(allow_nan=False, allow_infinity=False, width=32)))
def test_fp32_is_exact(vector: np.ndarray) -> None:
    codec = make_codec("fp32", len(vector), 0.05)
    got = codec.decode(codec.encode(vector, np.zeros_like(vector)), np.zeros_like(vector))
    assert got.tobytes() == vector.tobytes()


@settings(deadline=None)
@given(pairs(), st.sampled_from(ENCODINGS))
def test_the_length_is_known_and_both_ends_agree(pair: tuple[np.ndarray, np.ndarray], encoding: str) -> None:
    vector, base = pair
    codec = make_codec(encoding, len(vector), 0.05)
    sender = Sender(codec)
    data, arrives = sender.send(vector, base)
    assert len(data) == codec.nbytes
    assert codec.decode(data, base).tobytes() == arrives.tobytes()
    np.testing.assert_allclose(arrives + sender.residual, vector, rtol=1e-6, atol=1e-6)


@settings(deadline=None)
@given(pairs())
def test_int8_is_within_half_a_step(pair: tuple[np.ndarray, np.ndarray]) -> None:
    vector, base = pair
    codec = make_codec("int8", len(vector), 0.05)
    sender = Sender(codec)
    data, _ = sender.send(vector, base)
    scales = np.frombuffer(data, "<f2", -(-len(vector) // BLOCK)).astype(np.float32)
    rounding = np.spacing(np.abs(base) + np.abs(vector)) * 2
    assert (np.abs(sender.residual) <= np.repeat(scales, BLOCK)[: len(vector)] / 2 + rounding).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["fp16", "int8", "top_k"]), st.integers(1, 700))
def test_error_feedback_loses_nothing_for_good(seed: int, encoding: str, size: int) -> None:
    random = np.random.default_rng(seed)
    sender, base = Sender(make_codec(encoding, size, 0.1)), np.zeros(size, np.float32)
    true, decoded = np.zeros(size), np.zeros(size)
    for _ in range(30):
        delta = random.normal(size=size).astype(np.float32)
        _, arrives = sender.send(delta, base)
        true, decoded = true + delta, decoded + arrives
    np.testing.assert_allclose(decoded, true - sender.residual, atol=2e-3)


def test_what_stays_small_is_sent_in_the_end() -> None:
    """Top-k passes over a small steady difference again and again, until it has grown."""
    size = 100
    sender, base = Sender(make_codec("top_k", size, 0.05)), np.zeros(size, np.float32)
    total = np.zeros(size)
    delta = np.full(size, 0.01, np.float32)
    delta[:5] = 0.1
    for _ in range(400):
        total += sender.send(delta, base)[1]
    assert (total[5:] > 0.5 * 400 * 0.01).all()


def test_bytes_of_each() -> None:
    size = 10_000
    nbytes = {name: make_codec(name, size, 0.05).nbytes / (4 * size) for name in ENCODINGS}
    assert nbytes == {"fp32": 1.0, "fp16": 0.5, "int8": pytest.approx(0.252), "top_k": 1317 / 40_000}
    assert make_codec("top_k", size, FederationConfig().share).nbytes / (4 * size) == pytest.approx(0.051, abs=1e-3)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("change", [-1, 1, 1000])
def test_another_length_is_refused(encoding: str, change: int) -> None:
    codec = make_codec(encoding, 300, 0.05)
    data = codec.encode(np.ones(300, np.float32), np.zeros(300, np.float32))
    wrong = data[:change] if change < 0 else data + b"\0" * change
    with pytest.raises(FrameError, match="are due"):
        codec.decode(wrong, np.zeros(300, np.float32))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_is_not_finite_is_refused(encoding: str) -> None:
    codec, base = make_codec(encoding, 8, 1.0), np.zeros(8, np.float32)
    nan = {
        "fp32": np.full(8, np.nan, "<f4").tobytes(), "fp16": np.full(8, np.inf, "<f2").tobytes(),
        "int8": np.full(1, np.nan, "<f2").tobytes() + bytes(range(1, 9)),
        "top_k": b"\xff" + np.full(1, np.nan, "<f2").tobytes() + b"\x0f",
    }[encoding]  # fmt: skip
    with pytest.raises(FrameError, match="NaN or infinite"):
        codec.decode(nan, base)
    with pytest.raises(FrameError, match="NaN or infinite"):  # the sum is, though neither part was
        make_codec("fp16", 1, 1.0).decode(
            np.float16(6e4).astype("<f2").tobytes(),
            np.full(1, np.finfo(np.float32).max, np.float32) * np.float32(np.inf),
        )


@settings(deadline=None)
@given(st.sets(st.integers(0, 167), max_size=12), st.binary(min_size=2, max_size=2))
def test_places_are_checked(places: set[int], data: bytes) -> None:
    """161 values in 21 bytes: bits behind the last are refused, and all but 9 of them."""
    codec, bits = make_codec("top_k", 161, 0.05), np.zeros(168, bool)
    bits[list(places)] = True
    data = np.packbits(bits).tobytes() + b"\0\x3c" + data
    assert codec.nbytes == len(data)
    if len(places) != 9 or max(places) >= 161:
        with pytest.raises(FrameError, match="and 9 are due"):
            codec.decode(data, np.zeros(161, np.float32))
    else:
        assert set(np.flatnonzero(codec.decode(data, np.zeros(161, np.float32)))) <= places


@settings(deadline=None)
@given(pairs())
def test_top_k_is_nearer_than_nothing(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """Of normal differences four fifths of the energy arrive; what is passed over is smaller than what is not."""
    vector, base = pair
    sender = Sender(make_codec("top_k", len(vector), 0.6))
    _, arrives = sender.send(vector, base)
    delta = vector - base
    if len(vector) >= 100 and np.abs(delta).mean() > 1e-4:  # a float16 and a float32 sum have their own rounding
        assert (sender.residual**2).sum() < 0.35 * (delta**2).sum()
        there = arrives != base
        assert np.abs(delta[there]).min() >= np.abs(delta[~there]).max()
