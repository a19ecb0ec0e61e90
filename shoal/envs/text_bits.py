"""Text in observations as bits: every word sets the one that its checksum names. For missions of a few words, as in MiniGrid."""

from __future__ import annotations

import zlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

BITS = 64


def with_text_as_bits(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """The environment, wrapped if a part of its Dict observation is text."""
    space = env.observation_space
    has_text = isinstance(space, spaces.Dict) and any(map(_is_text, space.spaces.values()))
    return TextBits(env) if has_text else env


class TextBits(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Text parts become MultiBinary; two words share a bit now and then, and the order of words is lost."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        assert isinstance(env.observation_space, spaces.Dict)
        parts = env.observation_space.spaces
        self._texts = [key for key, part in parts.items() if _is_text(part)]
        bits = spaces.MultiBinary(BITS)
        self.observation_space = spaces.Dict([(key, bits if key in self._texts else parts[key]) for key in parts])

    def observation(self, observation: Any) -> Any:
        """With bits in the place of words."""
        return {**observation, **{key: bits_of(observation[key]) for key in self._texts}}


def _is_text(space: gymnasium.Space[Any]) -> bool:
    """gymnasium's Text, and spaces of sentences that packages have of their own."""
    return space.dtype is not None and np.dtype(space.dtype).kind == "U"


def bits_of(text: str) -> np.ndarray:
    """int8 `[BITS]`."""
    bits = np.zeros(BITS, np.int8)
    bits[[zlib.crc32(word.encode()) % BITS for word in text.lower().split()]] = 1
    return bits
