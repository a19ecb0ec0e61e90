"""How parameters are written for the way: a vector of float32 and the one that the other end has in, bytes out, and back.

    fp32    the vector itself: what arrives is it, bit for bit
    fp16    differences, as float16
    int8    differences in blocks of 256 values: a float16 scale each, and whole numbers from -127 to 127
    top_k   the largest differences: a bit for each place, and of those that are there whole numbers from -7 to 7, with scales

All but the first lose something. Whoever sends keeps what was lost and adds it to the next difference (error feedback, Seide et al.
2014), so that nothing is lost for good: sum(decoded) = sum(true) - residual. Both ends compute `decode` by the same float32
steps, so the sender knows to the bit what the other end has.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.federation.frames import FrameError

Vector = NDArray[np.float32]
BLOCK = 256
"""Values that share a scale."""
LARGEST = float(np.finfo(np.float16).max)


class Codec(ABC):
    """For vectors of `size` values."""

    def __init__(self, size: int) -> None:
        self.size = size

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Of an encoded vector, whatever it holds."""

    @abstractmethod
    def encode(self, vector: Vector, base: Vector) -> bytes:
        """To be decoded against the same `base`."""

    def decode(self, data: bytes, base: Vector) -> Vector:
        """What arrives. A length that cannot be or a value that is not finite is a FrameError."""
        if len(data) != self.nbytes:
            raise FrameError(f"{len(data)} bytes of parameters, and {self.nbytes} are due")
        with np.errstate(over="ignore", invalid="ignore"):
            vector = self._decode(data, base)
        if not np.isfinite(vector).all():
            raise FrameError("a parameter is NaN or infinite")
        return vector

    @abstractmethod
    def _decode(self, data: bytes, base: Vector) -> Vector: ...


class Fp32(Codec):
    """As they are."""

    @property
    def nbytes(self) -> int:
        return 4 * self.size

    def encode(self, vector: Vector, base: Vector) -> bytes:
        return vector.astype("<f4").tobytes()

    def _decode(self, data: bytes, base: Vector) -> Vector:
        return np.frombuffer(data, "<f4").astype(np.float32)


class Fp16(Codec):
    """Half as many bytes."""

    @property
    def nbytes(self) -> int:
        return 2 * self.size

    def encode(self, vector: Vector, base: Vector) -> bytes:
        return np.clip(vector - base, -LARGEST, LARGEST).astype("<f2").tobytes()

    def _decode(self, data: bytes, base: Vector) -> Vector:
        return base + np.frombuffer(data, "<f2").astype(np.float32)


class Int8(Codec):
    """A quarter, and a scale for each block."""

    @property
    def nbytes(self) -> int:
        return 2 * _blocks(self.size) + self.size

    def encode(self, vector: Vector, base: Vector) -> bytes:
        scales, whole = _to_whole(np.clip(vector - base, -LARGEST, LARGEST), 127)
        return scales.tobytes() + whole.tobytes()

    def _decode(self, data: bytes, base: Vector) -> Vector:
        blocks = _blocks(self.size)
        whole = np.frombuffer(data, np.int8, self.size, 2 * blocks)
        return base + _from_whole(np.frombuffer(data, "<f2", blocks), whole)


class TopK(Codec):
    """The largest `share` of the differences, with four bits each; the others wait in the residual until they are large."""

    def __init__(self, size: int, share: float) -> None:
        super().__init__(size)
        self._count = min(size, max(1, math.ceil(share * size))) if size else 0
        self._map = -(-size // 8)
        """Bytes that say which are there."""

    @property
    def nbytes(self) -> int:
        return self._map + 2 * _blocks(self._count) + -(-self._count // 2)

    def encode(self, vector: Vector, base: Vector) -> bytes:
        differences = np.clip(vector - base, -LARGEST, LARGEST)
        there = np.zeros(self.size, bool)
        there[np.argsort(-np.abs(differences), kind="stable")[: self._count]] = True
        scales, whole = _to_whole(differences[there], 7)
        pairs = np.zeros(2 * -(-self._count // 2), np.uint8)
        pairs[: self._count] = whole + 8
        return np.packbits(there).tobytes() + scales.tobytes() + (pairs[::2] | pairs[1::2] << 4).tobytes()

    def _decode(self, data: bytes, base: Vector) -> Vector:
        bits = np.unpackbits(np.frombuffer(data, np.uint8, self._map)).astype(bool)
        if bits.sum() != self._count or bits[self.size :].any():
            raise FrameError(f"the places of {bits.sum()} parameters, and {self._count} are due")
        blocks = _blocks(self._count)
        pairs = np.frombuffer(data, np.uint8, -1, self._map + 2 * blocks)
        whole = np.stack([pairs & 15, pairs >> 4], 1).reshape(-1)[: self._count].astype(np.int8) - 8
        vector = base.copy()
        vector[bits[: self.size]] += _from_whole(np.frombuffer(data, "<f2", blocks, self._map), whole)
        return vector


def _blocks(size: int) -> int:
    return -(-size // BLOCK)


def _to_whole(values: Vector, most: int) -> tuple[NDArray[np.float16], NDArray[np.int8]]:
    """A float16 scale for each block, and whole numbers from -`most` to `most`."""
    padded = np.zeros(_blocks(len(values)) * BLOCK, np.float32)
    padded[: len(values)] = values
    blocks = padded.reshape(-1, BLOCK)
    scales = _no_less((np.abs(blocks).max(1, initial=0) / np.float32(most)).astype(np.float32))
    steps = scales.astype(np.float32)[:, None]
    whole = np.divide(blocks, steps, out=np.zeros_like(blocks), where=steps > 0)
    return scales, np.clip(np.rint(whole), -most, most).astype(np.int8).reshape(-1)[: len(values)]


def _from_whole(scales: NDArray[np.float16], whole: NDArray[np.int8]) -> Vector:
    return whole.astype(np.float32) * np.repeat(scales.astype(np.float32), BLOCK)[: len(whole)]


def _no_less(scales: Vector) -> NDArray[np.float16]:
    """As float16, rounded up: the largest value of a block must not lie beyond the last step."""
    halves = scales.astype("<f2")
    return np.where(halves.astype(np.float32) < scales, np.nextafter(halves, np.float16(np.inf)), halves).astype("<f2")


def make_codec(encoding: str, size: int, share: float) -> Codec:
    """By its name in the handshake."""
    simple: dict[str, type[Any]] = {"fp32": Fp32, "fp16": Fp16, "int8": Int8}
    return TopK(size, share) if encoding == "top_k" else simple[encoding](size)


class Sender:
    """One direction: encodes, and knows what the other end then has."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.residual = np.zeros(codec.size, np.float32)
        """What was lost so far."""

    def send(self, vector: Vector, base: Vector) -> tuple[bytes, Vector]:
        """The bytes, and what arrives."""
        wanted = vector if not self.residual.any() else vector + self.residual
        data = self._codec.encode(wanted, base)
        arrives = self._codec.decode(data, base)
        self.residual = wanted - arrives
        return data, arrives

    def forget(self) -> None:
        """The other end begins anew."""
        self.residual[:] = 0
