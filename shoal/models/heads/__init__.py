"""Heads: features in, actions with their log-probabilities out. One per kind of action space."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from shoal.base.errors import InputError
from shoal.models.heads.continuous import Gaussian, SquashedGaussian
from shoal.models.heads.discrete import Bernoulli, Categorical, MultiCategorical
from shoal.models.heads.head import Head

__all__ = ["Bernoulli", "Categorical", "Gaussian", "Head", "MultiCategorical", "SquashedGaussian", "build_head"]


def build_head(
    action_space: Space[Any], features: int, *, squash: bool = False, init_gain: float = 0.01, log_std: float = 0.0
) -> Head:
    """The head for an action space. `squash` and `log_std` (of the first deviation) concern Box spaces alone."""
    match action_space:
        case Discrete():
            return Categorical(action_space, features, init_gain)
        case MultiDiscrete():
            return MultiCategorical(action_space, features, init_gain)
        case MultiBinary():
            return Bernoulli(action_space, features, init_gain)
        case Box() if np.issubdtype(action_space.dtype, np.floating):
            kind = SquashedGaussian if squash else Gaussian
            return kind(action_space, features, init_gain, log_std)
    raise InputError(
        f"no policy acts in {action_space}: wrap the environment (env.wrappers) so that its action space is Discrete, "
        "MultiDiscrete, MultiBinary or a Box of floats"
    )
