"""Gradients written by hand for the commonest small networks, where autograd's bookkeeping costs more than the arithmetic.

Nothing else depends on this folder: an algorithm asks whether a kernel suits its policy and works without one as well.
"""

from functools import lru_cache

import numpy as np

numbers = lru_cache(maxsize=64)(np.arange)
"""`[0 .. n - 1]`, to be read only."""

WIDEST = 256
"""Inputs of a layer up to which calls cost more than arithmetic."""
