"""Smaller images for faster learning: one observation `[height, width, channels]` in, one frame of the configured size out.

How frames become a stack is the affair of whoever knows where episodes begin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box

from shoal.api.env import Array
from shoal.api.experiment import ImagesConfig
from shoal.base.errors import InputError

LUMA = np.array([0.299, 0.587, 0.114], np.float32)
"""How bright red, green and blue look (ITU-R BT.601)."""


class ImageResizer:
    """`frame` shrinks; `space` is what agents see, with `stack` frames side by side in the channels, the newest last."""

    def __init__(self, space: Space[Any], config: ImagesConfig, name: str) -> None:
        if not isinstance(space, Box) or len(space.shape) != 3 or space.dtype != np.uint8:
            raise InputError(
                f"env.images is for environments that show bytes [height, width, channels]; '{name}' shows {space}: remove it"
            )
        self._seen = height, width, channels = space.shape
        if config.grey and channels != len(LUMA):
            raise InputError(f"env.images.grey = true: '{name}' shows {channels} channels and not red, green and blue")
        size = tuple(config.size or (height, width))
        if size[0] > height or size[1] > width:
            raise InputError(
                f"env.images.size = {config.size} is larger than the {height} x {width} pixels of '{name}': images only shrink"
            )
        self._grey = config.grey
        self._rows, self._tall = _boxes(height, size[0])
        self._columns, self._wide = _boxes(width, size[1])
        self.channels = 1 if config.grey else channels
        self.space = Box(0, 255, (*size, self.channels * config.stack), np.uint8)

    def frame(self, image: Array) -> Array:
        """Each pixel is the mean of its box."""
        if image.shape != self._seen or image.dtype != np.uint8:
            raise ValueError(f"the image has shape {image.shape} and dtype {image.dtype}, not {self._seen} and uint8")
        total = _sum_of(_sum_of(image, self._rows, self._tall).swapaxes(0, 1), self._columns, self._wide)
        if self._grey:
            total = (total @ LUMA)[..., None]
        return (total / (self._tall * self._wide) + 0.5).astype(np.uint8).swapaxes(0, 1)


def _boxes(length: int, count: int) -> tuple[Array, int]:
    """Where `count` boxes of equal length begin, spread evenly, and how long they are."""
    return np.arange(count) * length // count, length // count


def _sum_of(lines: Array, starts: Array, length: int) -> Array:
    """`[lines, ...]` -> `[boxes, ...]`. Line by line: much faster than `np.add.reduceat`."""
    total = lines[starts].astype(np.uint32)
    for offset in range(1, length):
        total += lines[starts + offset]
    return total
