"""Values squeezed so that returns of very different size can be learned by one network (Pohlen et al. 2018).

h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x. Both functions are written without a difference of nearly equal numbers: the
textbook forms lose all digits of small numbers in float32.
"""

from __future__ import annotations

from torch import Tensor

EPSILON = 1e-3
"""Keeps h steep enough to have an inverse that does not grow too fast."""


def rescaled(x: Tensor) -> Tensor:
    """h, element by element: sqrt(|x| + 1) - 1 is |x| / (sqrt(|x| + 1) + 1)."""
    return x / ((x.abs() + 1).sqrt() + 1) + EPSILON * x


def restored(y: Tensor) -> Tensor:
    """The exact inverse of h.

    With s = sqrt(|x| + 1) - 1 it is |x| = s (s + 2) and |y| = epsilon s^2 + (1 + 2 epsilon) s, of which s is the positive root.
    """
    linear = 1 + 2 * EPSILON
    root = (linear * linear + 4 * EPSILON * y.abs()).sqrt()
    s = 2 * y / (linear + root)  # with the sign of y
    return s * (s.abs() + 2)
