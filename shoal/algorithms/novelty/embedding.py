"""What observations are compared by within an episode: something that tells them apart by what an agent can do about it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from shoal.algorithms.novelty.surprise import frozen
from shoal.models.layers import Dense, orthogonal


class Embedding(nn.Module):
    """Observations as vectors `[..., seen]` -> `[..., width]`.

    `inverse`: learnt by guessing the action between two observations (Pathak et al. 2017), so that what actions do not
    touch is left out. `random`: a fixed projection. `observation`: the vector itself.
    """

    def __init__(
        self, kind: Literal["inverse", "random", "observation"], seen: int, width: int, hidden: list[int], actions: int
    ) -> None:
        super().__init__()
        self.width = seen if kind == "observation" else width
        self.encoder: nn.Module = nn.Identity()
        self.guess: nn.Module | None = None
        if kind == "random":
            self.encoder = frozen(orthogonal(nn.Linear(seen, width)))
        elif kind == "inverse":
            self.encoder = nn.Sequential(Dense(seen, hidden, "relu"), orthogonal(nn.Linear(hidden[-1], width)))
            self.guess = nn.Sequential(
                Dense(2 * width, hidden, "relu"), orthogonal(nn.Linear(hidden[-1], actions), 0.01)
            )

    def forward(self, seen: Tensor) -> Tensor:
        return self.encoder(seen)

    def loss(self, before: Tensor, after: Tensor, action: Tensor) -> tuple[Tensor, Tensor] | None:
        """`[n, seen]` twice, `[n]` -> mean cross-entropy of the action between, and how often the guess is right; None: fixed."""
        if self.guess is None:
            return None
        logits = self.guess(torch.cat([self.encoder(before), self.encoder(after)], -1))
        right = (logits.argmax(-1) == action).float().mean() if len(action) else logits.new_zeros(())
        return functional.cross_entropy(logits, action, reduction="sum") / max(len(action), 1), right
