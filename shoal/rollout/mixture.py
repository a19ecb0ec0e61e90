"""Somebody who is one of several policies, drawn anew in each episode: the mixture of a league."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from shoal.api.policy import Decision, Policy, Request
from shoal.base.tree import Tree, tree_map


class MixturePolicy(Policy):
    """Each lane draws one of `policies` by its share where an episode begins, by the last of its noise, and keeps it."""

    extras: dict[str, tuple[int, ...]] = {}

    def __init__(self, policies: Sequence[Policy], shares: Sequence[float]) -> None:
        super().__init__()
        self.policies = torch.nn.ModuleList(policies)
        self._parts = list(policies)
        self._until = torch.tensor(shares, dtype=torch.float64).cumsum(0) / sum(shares)
        self.agents = policies[0].agents
        self.noise_size = 1 + max(policy.noise_size for policy in policies)

    def initial_state(self, batch: int) -> Tree:
        return {
            "drawn": torch.zeros(batch, dtype=torch.int64),
            "own": tuple(p.initial_state(batch) for p in self._parts),
        }

    def act(self, request: Request, *, explore: bool) -> Decision:
        """All of them decide for all rows, and one of them counts in each: its answer does not depend on the other rows."""
        assert request.state is not None, "it remembers whom it drew"
        anew = torch.searchsorted(self._until, request.noise[:, -1].double(), right=True).clamp_(
            max=len(self._parts) - 1
        )
        drawn = torch.where(request.first, anew, request.state["drawn"])
        action, states = None, []
        for number, (policy, state) in enumerate(zip(self._parts, request.state["own"], strict=True)):
            noise = request.noise[:, : policy.noise_size]
            own = Request(request.observation, request.first, noise, state, request.action_mask)
            decision = policy.act(own, explore=explore)
            states.append(tree_map(torch.clone, decision.state))
            here = (drawn == number).reshape(-1, *[1] * (decision.action.ndim - 1))
            action = decision.action if action is None else torch.where(here, decision.action, action)
        assert action is not None, "there is one at least"
        return Decision(action, {}, {"drawn": drawn, "own": tuple(states)})
