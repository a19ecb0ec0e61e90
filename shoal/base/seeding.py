"""Random numbers as functions of (seed, purpose, slot, counter).

Nothing here keeps a position: asking twice gives the same numbers, in any process and in any order. So a resumed, a moved or
a split run draws what the unbroken one would have drawn, and no random state needs to be saved.
"""

from __future__ import annotations

import hashlib

import numpy as np


def purpose_key(purpose: str) -> int:
    """A fixed 64-bit number for a word (Python's own `hash` differs between processes)."""
    return int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "little")


def generator(seed: int, purpose: str, slot: int = 0, counter: int = 0) -> np.random.Generator:
    """The stream of numbers of one (seed, purpose, slot, counter)."""
    bits = np.random.Philox(key=[np.uint64(seed), np.uint64(purpose_key(purpose))], counter=[0, 0, slot, counter])
    return np.random.Generator(bits)


class Generators:
    """`generator` for one (seed, purpose), slot by slot and counter by counter: one generator that is reset, eight times as fast.

    What `at` returns is valid until the next call.
    """

    def __init__(self, seed: int, purpose: str) -> None:
        self._generator = generator(seed, purpose)
        self._bits = self._generator.bit_generator
        self._state = self._bits.state
        self._counter = self._state["state"]["counter"]

    def at(self, slot: int, counter: int) -> np.random.Generator:
        """At the beginning of its numbers."""
        self._counter[2], self._counter[3] = slot, counter
        self._bits.state = self._state
        return self._generator


def derive_seed(seed: int, purpose: str, slot: int = 0, counter: int = 0) -> int:
    """A 31-bit seed for someone else's generator: an environment, torch. A hash: cheap enough for every episode."""
    digest = hashlib.blake2b(f"{seed}/{purpose}/{slot}/{counter}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 1


class Noise:
    """Uniform numbers in [0, 1) for every lane and decision, drawn ahead in blocks.

    Lane `lane` at decision `t` always gets the same `width` numbers, whoever computes them; `hold` decisions in a row share theirs.
    """

    BLOCK = 128

    def __init__(self, seed: int, purpose: str, lanes: np.ndarray, width: int, hold: int = 1) -> None:
        self.lanes, self.width, self._hold = lanes, width, hold
        self._block = -1
        self._values = np.empty((self.BLOCK, len(lanes), width), np.float32)
        self._by_lane = np.empty((len(lanes), self.BLOCK, width), np.float32)
        self._generators = Generators(seed, purpose)

    def at(self, t: int) -> np.ndarray:
        """[lanes, width] for decision `t`; a view, valid until the next block."""
        block, row = divmod(t - t % self._hold, self.BLOCK)
        if block != self._block:
            self._draw(block)
        return self._values[row]

    def _draw(self, block: int) -> None:
        """What `generator` would give each lane."""
        for lane, numbers in zip(self.lanes.tolist(), self._by_lane, strict=True):
            self._generators.at(lane, block).random(dtype=np.float32, out=numbers)
        self._values[:] = self._by_lane.swapaxes(0, 1)
        self._block = block
