"""What one core needs for SAC on HalfCheetah-v5 by plain torch, in seconds; prints one JSON line.

env: one step of one copy at random, as Shoal's batch steps it. inference: one forward of the actor for all copies, per row.
update: targets, a step of both critics, a step of the actor through them, soft targets; the temperature is left out. In one
thread, as seconds of CPU; whoever draws the batch does that on top.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
import torch
from limit import seconds_per_call
from shoal_sac import experiment_of
from torch import Tensor, nn

from shoal.envs import make_env

SEEN, ACTION, HIDDEN = 17, 6, 256


def network(inputs: int, outputs: int) -> nn.Sequential:
    """Two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs)
    )


class Plain:
    """SAC without anything around it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.batch, self.copies = settings["batch"], settings["num_envs"]
        self.actor = network(SEEN, 2 * ACTION)
        self.critics, self.targets = (nn.ModuleList(network(SEEN + ACTION, 1) for _ in range(2)) for _ in range(2))
        self.adams = [
            torch.optim.Adam(each.parameters(), lr=settings["lr"], fused=True) for each in (self.actor, self.critics)
        ]

    def act(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """A squashed sample, and what its logarithm of density is up to what does not depend on it."""
        mean, log_std = self.actor(seen).chunk(2, -1)
        noise = torch.randn_like(mean)
        action = (mean + noise * log_std.clamp(-5, 2).exp()).tanh()
        return action, -(log_std + (1 - action.square() + 1e-6).log()).sum(-1, keepdim=True)

    def worth(self, critics: nn.ModuleList, seen: Tensor, action: Tensor) -> Tensor:
        """By the lesser critic."""
        joined = torch.cat([seen, action], -1)
        return torch.minimum(*(critic(joined) for critic in critics))

    def inference(self) -> float:
        """Per row of a decision for all copies."""
        now = torch.randn(self.copies, SEEN)
        with torch.inference_mode():
            return seconds_per_call(lambda: self.act(now)) / self.copies

    def learn(self, now: Tensor, next_: Tensor, action: Tensor, reward: Tensor) -> None:
        actor, critic = self.adams
        with torch.no_grad():
            chosen, log_prob = self.act(next_)
            target = reward + 0.99 * (self.worth(self.targets, next_, chosen) - log_prob)
        joined = torch.cat([now, action], -1)
        critic.zero_grad()
        sum((each(joined) - target).square().mean() for each in self.critics).backward()  # type: ignore[union-attr]
        critic.step()
        self.critics.requires_grad_(False)
        chosen, log_prob = self.act(now)
        actor.zero_grad()
        (log_prob - self.worth(self.critics, now, chosen)).mean().backward()
        actor.step()
        self.critics.requires_grad_(True)
        with torch.no_grad():
            for slow, fast in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
                slow.lerp_(fast, 0.005)

    def update(self) -> float:
        """One step along a batch."""
        sizes = (SEEN, SEEN, ACTION, 1)
        batch = [torch.randn(self.batch, size) for size in sizes]
        return seconds_per_call(lambda: self.learn(*batch))


def env_seconds(settings: dict[str, Any]) -> float:
    """Of one copy advancing once within its batch."""
    copies, draw = settings["num_envs"], np.random.default_rng(1)
    env = make_env(experiment_of({**settings, "shape": "inline"}).env, copies)
    (name,) = env.groups
    drawn = [draw.uniform(-1, 1, (copies, 1, ACTION)).astype(np.float32) for _ in range(64)]
    env.reset(1)

    def play() -> None:
        for actions in drawn:
            env.step({name: actions})

    try:
        return seconds_per_call(play) / (len(drawn) * copies)
    finally:
        env.close()


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    env, plain = env_seconds(settings), Plain(settings)
    print(json.dumps({"env": env, "inference": plain.inference(), "update": plain.update()}))


if __name__ == "__main__":
    main()
