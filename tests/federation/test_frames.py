"""Frames: what was sent comes back, and nothing else is taken for it."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.federation.frames import (
    BLOCK,
    HEAD,
    KINDS,
    MAX_HEADER,
    Frame,
    FrameError,
    decode,
    digest_of,
    encode,
    size_of,
)  # fmt: skip
from shoal.federation.messages import Bye, Contribution, Hello, Parcel, RefusedError, Weights, common_protocol, expect

words = st.text(max_size=20)
headers = st.dictionaries(words, st.integers() | words | st.booleans() | st.none() | st.lists(words, max_size=3))
frames = st.builds(
    Frame, st.sampled_from(KINDS), headers, st.lists(st.binary(max_size=300), max_size=8).map(tuple)
)  # fmt: skip


@settings(deadline=None)
@given(frames, st.integers(0, 2**64 - 1))
def test_what_is_sent_comes_back(frame: Frame, sequence: int) -> None:
    assert decode(encode(frame, sequence), sequence) == frame


@settings(deadline=None)
@given(frames, st.integers(0, 1000), st.integers(0, 1000))
def test_a_frame_is_taken_once_and_in_its_turn(frame: Frame, sent: int, due: int) -> None:
    if sent != due:
        with pytest.raises(FrameError, match="lost, replayed or reordered"):
            decode(encode(frame, sent), due)


@settings(deadline=None)
@given(frames, st.data())
def test_a_shorter_or_longer_one_is_refused(frame: Frame, data: st.DataObject) -> None:
    whole = encode(frame, 3)
    with pytest.raises(FrameError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))], 3)
    with pytest.raises(FrameError):
        decode(whole + data.draw(st.binary(min_size=1, max_size=9)), 3)


@settings(deadline=None)
@given(frames, st.data())
def test_a_flipped_bit_is_found(frame: Frame, data: st.DataObject) -> None:
    whole = bytearray(encode(frame, 3))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(FrameError):
        decode(bytes(whole), 3)


def test_of_twenty_thousand_tampered_messages_none_is_taken() -> None:
    """Flipped, cut, lengthened, replayed, swapped, spliced: a connection has seen message 5, and 6 is due."""
    draw = random.Random(2)
    header = {
        "round": 0,
        "base": 0,
        "samples": 5,
        "updates": 1,
        "seconds": 0.5,
        "error": 0.0,
        "score": 1.5,
        "episodes": 2,
    }
    sent = [
        encode(Frame("contribution", {**header, "round": number}, (draw.randbytes(200), draw.randbytes(40))), number)
        for number in range(20)
    ]  # fmt: skip
    taken = 0
    for number in range(20_000):
        whole, other = sent[6], sent[draw.randrange(20)]
        at = draw.randrange(1, len(whole))
        tampered = [
            whole[:at] + bytes([whole[at] ^ (1 << draw.randrange(8))]) + whole[at + 1 :],
            whole[:at],
            whole + draw.randbytes(draw.randrange(1, 50)),
            sent[draw.choice([0, 1, 2, 3, 4, 5])],
            sent[draw.randrange(7, 20)],
            whole[:at] + other[at:] if other is not whole else whole[:at],
        ][number % 6]
        try:
            decode(tampered, 6)
            taken += 1
        except FrameError:
            pass
    assert taken == 0
    decode(sent[6], 6)


def test_ten_thousand_broken_frames_end_in_one_kind_of_error() -> None:
    draw = random.Random(1)
    hello = {"protocols": [1], "session": "0" * 32, "encodings": ["fp32"], "looks": False}
    whole = encode(Frame("hello", hello, ()), 0)
    taken = 0
    for _ in range(10_000):
        broken = bytearray(whole)
        for _ in range(draw.randrange(1, 8)):
            how = draw.randrange(4)
            at = draw.randrange(len(broken)) if broken else 0
            if how == 0 and broken:
                broken[at] = draw.randrange(256)
            elif how == 1 and broken:
                del broken[at : at + draw.randrange(1, 20)]
            elif how == 2:
                broken[at:at] = draw.randbytes(draw.randrange(1, 20))
            else:
                broken = bytearray(draw.randbytes(draw.randrange(200)))
        try:
            found = Parcel.of(decode(bytes(broken), 0))
        except FrameError:
            continue
        taken += 1
        assert found.header.kind == "hello"
    assert taken <= 10, "what was broken and mended again"


def test_nothing_is_allocated_by_what_a_length_says() -> None:
    huge = HEAD.pack(b"SHOL", 1, 4, 0, 2, 1) + bytes(32) + b"{}" + BLOCK.pack(1 << 60, bytes(32))
    tracemalloc.start()
    try:
        with pytest.raises(FrameError, match="within a block"):
            decode(huge, 0)
        with pytest.raises(FrameError, match="cannot be"):
            decode(HEAD.pack(b"SHOL", 1, 4, 0, MAX_HEADER + 1, 0), 0)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("header", [b"[1]", b'{"a":NaN}', b'{"a":1,"a":2}', b"\xff", b"[" * 5000, b'{"a":1e999}'])
def test_a_header_that_is_no_object_is_refused(header: bytes) -> None:
    head = HEAD.pack(b"SHOL", 1, KINDS.index("bye"), 0, len(header), 0)
    raw = head + digest_of(head, header, []) + header
    with pytest.raises(FrameError):
        Parcel.of(decode(raw, 0))


def test_the_length_of_a_frame_is_known_beforehand() -> None:
    frame = Frame("weights", {}, (b"abc", b""))
    assert len(encode(frame, 0)) == size_of(2, (3, 0))


def test_too_long_a_header_is_not_sent() -> None:
    with pytest.raises(FrameError, match="too long"):
        encode(Frame("bye", {"reason": "x" * MAX_HEADER}), 0)


# ---------------------------------------------------------------- messages

WEIGHTS = {"version": 3, "whole": True, "answers": -1, "verdict": "", "steps": 7}


def test_messages_are_checked() -> None:
    frame = Parcel(Weights(**WEIGHTS), (b"a", b"b")).frame
    assert Parcel.of(frame).header == Weights(**WEIGHTS)
    with pytest.raises(FrameError, match="2 blocks"):
        Parcel.of(Frame("weights", WEIGHTS, (b"a",)))
    for change in (
        {"version": -1},
        {"version": 1.5},
        {"whole": 1},
        {"verdict": "maybe"},
        {"more": 1},
        {"version": 2**60},
    ):
        with pytest.raises(FrameError, match="is wrong"):
            Parcel.of(Frame("weights", {**WEIGHTS, **change}, (b"a", b"b")))


@pytest.mark.parametrize("score", [float("1e31"), "3", True])
def test_a_score_is_a_number(score: object) -> None:
    header = {
        "round": 0,
        "base": 0,
        "samples": 1,
        "updates": 1,
        "seconds": 1.0,
        "error": 0.0,
        "score": 2.5,
        "episodes": 1,
    }
    Contribution.model_validate(header)
    with pytest.raises(FrameError, match="score"):
        Parcel.of(Frame("contribution", {**header, "score": score}, (b"", b"")))


def test_a_refusal_is_told_as_it_is() -> None:
    with pytest.raises(RefusedError, match="no room") as caught:
        expect(Parcel(Bye(reason="no room", over=False)), Weights)
    assert not caught.value.over
    with pytest.raises(FrameError, match="a weights is due, and a hello came"):
        expect(Parcel(Hello(protocols=[1], session="0" * 32, encodings=["fp32"], looks=True)), Weights)


def test_protocols_are_agreed_upon() -> None:
    assert common_protocol([0, 1, 7]) == 1
    with pytest.raises(FrameError, match="same release"):
        common_protocol([7])
