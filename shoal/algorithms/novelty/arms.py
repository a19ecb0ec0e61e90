"""Ladders of intrinsic weights and discounts over the arms. Badia et al. 2020 (never give up), appendix A."""

from __future__ import annotations

import math


def weights(arms: int, greatest: float) -> list[float]:
    """Of arm 0 nothing, of the last the greatest, between them along a sigmoid."""
    middle = [greatest / (1 + math.exp(-10 * (2 * arm - (arms - 2)) / (arms - 2))) for arm in range(1, arms - 1)]
    return [0.0, *middle, greatest]


def discounts(arms: int, first: float, last: float) -> list[float]:
    """From `first` to `last`, in equal steps of log(1 - gamma)."""
    near, far = math.log(1 - first), math.log(1 - last)
    return [1 - math.exp(((arms - 1 - arm) * near + arm * far) / (arms - 1)) for arm in range(arms)]
