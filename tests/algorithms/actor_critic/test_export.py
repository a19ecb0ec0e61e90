"""A policy's network leaves Python: `torch.export` of what CartPole is played with."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn

from shoal.algorithms.actor_critic.policy import ActorCritic
from shoal.algorithms.actor_critic.ppo import PPO
from shoal.api.algorithm import Task
from shoal.api.env import AgentGroup
from shoal.api.policy import Request
from shoal.base.config import Named


class Network(nn.Module):
    """Observations `[B, 4]` -> greedy actions `[B]`."""

    def __init__(self, policy: ActorCritic) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observation: Tensor) -> Tensor:
        rows = observation.shape[0]
        request = Request(observation, torch.zeros(rows, dtype=torch.bool), torch.zeros(rows, 1))
        return self.policy.act(request, explore=False).action


@pytest.mark.parametrize("seen", [0, 50], ids=["untrained", "trained"])
def test_the_network_of_cartpole_is_exported(seen: int) -> None:
    group = AgentGroup(("agent",), Box(-np.inf, np.inf, (4,), np.float32), Discrete(2))
    config = PPO.Config.parse({"normalise_observations": True}, at="algorithm")
    policy = PPO(config, Named(name="mlp", hidden=[16]), Task(group, 16, 0)).policy.eval()
    assert policy.normaliser is not None
    data = 5 + 30 * torch.randn(seen, 1, 4, generator=torch.Generator().manual_seed(0))
    policy.normaliser.update(data, torch.ones(seen, 1, dtype=torch.bool), lambda sums: sums)
    probe = 20 * torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
    batch = torch.export.Dim("batch", min=2, max=1024)
    exported = torch.export.export(Network(policy), (probe[:8],), dynamic_shapes=({0: batch},))
    found = exported.module()(probe)
    assert torch.equal(found, Network(policy)(probe))
    assert len(found.unique()) == 2
