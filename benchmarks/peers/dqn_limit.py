"""What one core needs for DQN on Pong by plain torch, in seconds; prints one JSON line.

env: one step of one copy, as in `limit.py`. inference: one forward for all copies and the best choice of each, per row. update:
the target network on what followed, the network forward and backward on what was seen, clipping, Adam; the quicker of the two
layouts of memory. In one thread, as seconds of CPU; whoever draws the batch, or copies it, does that on top.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from limit import batch_seconds, seconds_per_call
from shoal_dqn import experiment_of
from torch import Tensor, nn
from torch.nn import functional

CHOICES, STACK, SIDE = 6, 4, 84
LAYOUTS = (torch.contiguous_format, torch.channels_last)


def nature() -> nn.Sequential:
    """The network of Mnih et al. (2015)."""
    return nn.Sequential(
        nn.Conv2d(STACK, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, CHOICES),
    )  # fmt: skip


def pictures(count: int) -> Tensor:
    return torch.randint(256, (count, STACK, SIDE, SIDE), dtype=torch.uint8)


class Plain:
    """DQN without anything around it."""

    def __init__(self, settings: dict[str, Any], layout: torch.memory_format) -> None:
        self.batch, self.copies, self.layout = settings["batch"], settings["num_envs"], layout
        self.online, self.target = (nature().to(memory_format=layout) for _ in range(2))  # type: ignore[call-overload]
        self.optimiser = torch.optim.Adam(self.online.parameters(), lr=settings["lr"], fused=True)

    def seen(self, bytes_: Tensor) -> Tensor:
        return bytes_.contiguous(memory_format=self.layout).float().mul_(1 / 255)

    def inference(self) -> float:
        """Per row of a decision for all copies."""
        now = pictures(self.copies)

        @torch.inference_mode()
        def decide() -> Tensor:
            return self.online(self.seen(now)).argmax(1)

        return seconds_per_call(decide) / self.copies

    def update(self) -> float:
        """One step along a batch."""
        seen, next_ = pictures(self.batch), pictures(self.batch)
        action, reward = torch.randint(CHOICES, (self.batch, 1)), torch.randn(self.batch)

        def learn() -> None:
            with torch.no_grad():
                target = reward + 0.99 * self.target(self.seen(next_)).amax(1)
            value = self.online(self.seen(seen)).gather(1, action)[:, 0]
            self.optimiser.zero_grad()
            functional.huber_loss(value, target).backward()
            nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
            self.optimiser.step()

        return seconds_per_call(learn)


def least(measure: Callable[[Plain], float], settings: dict[str, Any]) -> float:
    """Of both layouts."""
    return min(measure(Plain(settings, layout)) for layout in LAYOUTS)


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    env = batch_seconds(experiment_of({**settings, "shape": "inline"}))
    print(
        json.dumps({"env": env, "inference": least(Plain.inference, settings), "update": least(Plain.update, settings)})
    )


if __name__ == "__main__":
    main()
