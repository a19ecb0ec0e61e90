"""Discs on a plain ground, smooth at their edges, by numpy alone: how native environments show themselves."""

from __future__ import annotations

import numpy as np

from shoal.api.env import Array

Colour = tuple[int, int, int]

PAPER, INK, WHITE = (246, 246, 242), (52, 58, 64), (255, 255, 255)
COLOURS: tuple[Colour, ...] = ((38, 108, 182), (221, 94, 68), (64, 145, 92), (226, 168, 42), (126, 87, 162))
"""One after the other for those who are to be told apart."""


def canvas(height: int, width: int, ground: Colour = PAPER) -> Array:
    """float32 `[height, width, 3]`, to draw on."""
    return np.full((height, width, 3), ground, np.float32)


def disc(on: Array, x: float, y: float, radius: float, colour: Colour, opacity: float = 1.0) -> None:
    """Around column `x` and row `y`; what lies outside the canvas is cut off."""
    top, left = max(0, int(y - radius - 1)), max(0, int(x - radius - 1))
    part = on[top : max(top, int(y + radius + 3)), left : max(left, int(x + radius + 3))]
    rows, columns = np.ogrid[top : top + part.shape[0], left : left + part.shape[1]]
    inside = np.clip(radius + 0.5 - np.hypot(rows - y, columns - x), 0.0, 1.0)[..., None] * opacity
    part += inside * (np.array(colour, np.float32) - part)


def to_image(drawn: Array) -> Array:
    """Bytes, as `Env.render` gives them."""
    return np.rint(drawn).astype(np.uint8)
