"""One message as bytes, and back: a fixed head, a JSON header, blocks of raw bytes with a SHA-256 each.

    magic 4 | protocol 1 | kind 1 | sequence 8 | header length 4 | blocks 1 | SHA-256 32
    header | (length 8 | SHA-256 32 | bytes) ...

The first SHA-256 is over all before it, the header, and what precedes each block. All numbers are big-endian. Nothing is allocated
by what a length says: lengths are compared with the bytes that are there. What is not exactly as it should be is a FrameError.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import Any

PROTOCOL = 1
"""Of this release; it is in every frame, and agreed upon in the handshake."""
MAGIC = b"SHOL"
HEAD = struct.Struct(">4sBBQIB")
BLOCK = struct.Struct(">Q32s")
DIGEST = 32
FIRST = 4096
"""Bytes of a frame at most, before the two ends have agreed on anything."""
MAX_HEADER = 256 << 10
"""Bytes of a header at most: names and shapes of tensors are its largest content."""
MAX_BLOCKS = 8
KINDS = ("hello", "offer", "accept", "refuse", "weights", "contribution", "bye")


class FrameError(ValueError):
    """These bytes are no message of the protocol, or not the one that is due."""


@dataclass(frozen=True)
class Frame:
    """One message."""

    kind: str
    header: dict[str, Any] = field(default_factory=dict)
    blocks: tuple[bytes, ...] = ()


def encode(frame: Frame, sequence: int) -> bytes:
    """As it is sent. `sequence`: of this direction of this connection, from 0 on."""
    header = json.dumps(frame.header, allow_nan=False, separators=(",", ":")).encode()
    if len(header) > MAX_HEADER or len(frame.blocks) > MAX_BLOCKS:
        raise FrameError(f"a {frame.kind} of {len(header)} bytes and {len(frame.blocks)} blocks is too long")
    head = HEAD.pack(MAGIC, PROTOCOL, KINDS.index(frame.kind), sequence, len(header), len(frame.blocks))
    before = [BLOCK.pack(len(block), hashlib.sha256(block).digest()) for block in frame.blocks]
    blocks = [part for pair in zip(before, frame.blocks, strict=True) for part in pair]
    return b"".join([head, digest_of(head, header, before), header, *blocks])


def digest_of(head: bytes, header: bytes, before: list[bytes]) -> bytes:
    """Of all of a frame but its blocks, which have their own."""
    return hashlib.sha256(b"".join([head, header, *before])).digest()


def size_of(header: int, blocks: tuple[int, ...]) -> int:
    """Bytes of a frame whose header and blocks are so long."""
    return HEAD.size + DIGEST + header + sum(BLOCK.size + block for block in blocks)


def decode(data: bytes, sequence: int) -> Frame:
    """A frame that was received as number `sequence`: a replayed, lost or reordered one has another number."""
    if len(data) < HEAD.size:
        raise FrameError("it is shorter than its head")
    magic, protocol, kind, number, header_nbytes, blocks = HEAD.unpack_from(data)
    if magic != MAGIC:
        raise FrameError("it is no message of Shoal's")
    if protocol != PROTOCOL:
        raise FrameError(f"it is of protocol {protocol}, this is {PROTOCOL}")
    if kind >= len(KINDS) or blocks > MAX_BLOCKS or header_nbytes > MAX_HEADER:
        raise FrameError("its head says what cannot be")
    if number != sequence:
        raise FrameError(f"it is number {number}, and {sequence} is due: it was lost, replayed or reordered")
    at = HEAD.size + DIGEST + header_nbytes
    if at > len(data):
        raise FrameError("it ends within its header")
    header, before, places = data[HEAD.size + DIGEST : at], [], []
    for _ in range(blocks):
        if at + BLOCK.size > len(data):
            raise FrameError("it ends between two blocks")
        nbytes, _ = BLOCK.unpack_from(data, at)
        before.append(data[at : at + BLOCK.size])
        at += BLOCK.size
        if nbytes > len(data) - at:
            raise FrameError("it ends within a block")
        places.append((at, at + nbytes))
        at += nbytes
    if at != len(data):
        raise FrameError("something follows its last block")
    if data[HEAD.size : HEAD.size + DIGEST] != digest_of(data[: HEAD.size], header, before):
        raise FrameError("it is not what its SHA-256 says")
    found = tuple(data[start:end] for start, end in places)
    for block, said in zip(found, before, strict=True):
        if hashlib.sha256(block).digest() != said[-32:]:
            raise FrameError("a block is not what its SHA-256 says")
    return Frame(KINDS[kind], _header(header), found)


def _header(raw: bytes) -> dict[str, Any]:
    try:
        header = json.loads(raw.decode(), parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError):  # of which UnicodeDecodeError and JSONDecodeError are kinds
        raise FrameError("its header is no JSON") from None
    if not isinstance(header, dict):
        raise FrameError("its header is no JSON object")
    return header


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found
