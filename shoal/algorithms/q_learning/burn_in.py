"""Rows that only bring a stored recurrent state up to date (Kapturowski et al. 2019): no gradient, nothing to learn from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from shoal.api.fragment import Fragment
from shoal.base.tree import Tree, tree_map


def state_behind(policy: Any, observation: Tree, batch: Fragment, burn_in: int) -> Tree | None:
    """The state before row `burn_in`, by a policy with `values`; the stored one where there is no memory or no burn-in."""
    if not burn_in or batch.state is None:
        return batch.state
    with torch.no_grad():
        seen = tree_map(lambda t: t[:burn_in], observation)
        state: Tree | None = policy.values(seen, batch.state, batch.first[:burn_in])[1]
    return state


def warmed_up(policy: Any, observation: Tree, batch: Fragment, burn_in: int) -> Tensor:
    """Values of the rows behind the first `burn_in`."""
    state = state_behind(policy, observation, batch, burn_in)
    seen = tree_map(lambda t: t[burn_in:], observation)
    values: Tensor = policy.values(seen, state, batch.first[burn_in:])[0]
    return values
