"""How parameters are written for the way: a vector of float32 and the one that the other end has in, bytes out, and back.

    fp32    the vector itself: what arrives is it, bit for bit
    fp16    differences, as float16
    int8    differences in blocks of 256 values: a float16 scale each, and whole numbers from -127 to 127
    top_k   the largest differences: a bit for each place, and of those that are there a sign, and a float16 mean of each 256

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
        padded = np.zeros(_blocks(self.size) * BLOCK, np.float32)
        padded[: self.size] = np.clip(vector - base, -LARGEST, LARGEST)
        blocks = padded.reshape(-1, BLOCK)
        scales = _no_less((np.abs(blocks).max(1) / np.float32(127)).astype(np.float32))
        steps = scales.astype(np.float32)[:, None]
        whole = np.divide(blocks, steps, out=np.zeros_like(blocks), where=steps > 0)
        return scales.tobytes() + np.clip(np.rint(whole), -127, 127).astype(np.int8).reshape(-1)[: self.size].tobytes()

    def _decode(self, data: bytes, base: Vector) -> Vector:
        scales = np.frombuffer(data, "<f2", _blocks(self.size)).astype(np.float32)
        whole = np.frombuffer(data, np.int8, self.size, 2 * len(scales)).astype(np.float32)
        return base + whole * np.repeat(scales, BLOCK)[: self.size]


class TopK(Codec):
    """The largest `share` of the differences, each as the mean of its block with a sign; all else waits in the residual until it is
    large. Optimisers that divide by a second moment move all parameters about equally far: many with one bit are worth more than
    few with many.
    """

    def __init__(self, size: int, share: float) -> None:
        super().__init__(size)
        self._count = min(size, max(1, math.ceil(share * size))) if size else 0
        self._map, self._signs = -(-size // 8), -(-self._count // 8)
        """Bytes that say which are there, and which of those are negative."""

    @property
    def nbytes(self) -> int:
        return self._map + 2 * _blocks(self._count) + self._signs

    def encode(self, vector: Vector, base: Vector) -> bytes:
        differences = np.clip(vector - base, -LARGEST, LARGEST)
        there = np.zeros(self.size, bool)
        there[np.argsort(-np.abs(differences), kind="stable")[: self._count]] = True
        values = differences[there]
        starts = np.arange(0, self._count, BLOCK)
        sums = np.add.reduceat(np.abs(values), starts) if self._count else values
        means = (sums / np.minimum(BLOCK, self._count - starts)).astype("<f2")
        return np.packbits(there).tobytes() + means.tobytes() + np.packbits(values < 0).tobytes()

    def _decode(self, data: bytes, base: Vector) -> Vector:
        there = np.unpackbits(np.frombuffer(data, np.uint8, self._map)).astype(bool)
        if there.sum() != self._count or there[self.size :].any():
            raise FrameError(f"the places of {there.sum()} parameters, and {self._count} are due")
        means = np.frombuffer(data, "<f2", _blocks(self._count), self._map).astype(np.float32)
        negative = np.unpackbits(np.frombuffer(data, np.uint8, self._signs, len(data) - self._signs))[: self._count]
        vector = base.copy()
        vector[there[: self.size]] += np.repeat(means, BLOCK)[: self._count] * (1 - 2 * negative.astype(np.float32))
        return vector


def _blocks(size: int) -> int:
    return -(-size // BLOCK)


def _no_less(scales: Vector) -> NDArray[np.float16]:
    """As float16, rounded up: the largest value of a block must not lie beyond 127 steps."""
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
