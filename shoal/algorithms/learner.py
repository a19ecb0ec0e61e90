"""Where losses become parameter changes: Adam over one flat block, and the one place that calls backward."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from shoal.api.algorithm import Differentiable, Learner, NonFiniteError, Optimiser
from shoal.base.flat import Flat


class Adam(Optimiser):
    """Adam (Kingma & Ba 2015) with a bound on the gradient's norm.

    One fused call on the flat block: `torch.optim` spends more time around that call than in it.
    """

    def __init__(self, flat: Flat, *, lr: float, max_grad_norm: float, eps: float = 1e-5) -> None:
        self.flat, self.lr, self.max_grad_norm, self._eps = flat, lr, max_grad_norm, eps
        self._moments = _Moments(flat.parameters)
        self.statistics = Flat(self._moments, gradients=False)

    @torch.no_grad()
    def apply(self) -> None:
        """One step along `flat.gradients`."""
        assert self.flat.gradients is not None, "this block was laid out without gradients"
        now = self._moments
        now.steps.add_(1)
        torch._fused_adam_(
            [self.flat.parameters], [self.flat.gradients], [now.mean], [now.square], [], [now.steps],
            lr=self.lr, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=self._eps, amsgrad=False, maximize=False,
        )  # fmt: skip

    def state_dict(self) -> dict[str, Tensor]:
        """First and second moments and the count of steps."""
        return self._moments.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from `state_dict`."""
        self._moments.load_state_dict(state)


class _Moments(nn.Module):
    """What Adam remembers. A module, so that it can be laid out in one block as a policy is."""

    mean: Tensor
    square: Tensor
    steps: Tensor

    def __init__(self, parameters: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros_like(parameters))
        self.register_buffer("square", torch.zeros_like(parameters))
        self.register_buffer("steps", torch.zeros((), device=parameters.device))


def advance(optimiser: Optimiser) -> float:
    """From the gradient that counts to new parameters: finite check, clipping, step. Returns the norm before clipping."""
    gradients = optimiser.flat.gradients
    assert gradients is not None, "this block was laid out without gradients"
    norm = float(torch.linalg.vector_norm(gradients))
    if not math.isfinite(norm):
        raise NonFiniteError(f"the gradient's norm is {norm}")
    if norm > optimiser.max_grad_norm:
        gradients.mul_(optimiser.max_grad_norm / (norm + 1e-6))
    optimiser.apply()
    return norm


class SoloLearner(Learner):
    """A trainer without replicas, or a replica that trains by `hogwild`: the others are in the parameters.

    `alive` is called with every step: an update may be long.
    """

    def __init__(self, alive: Callable[[], None] = lambda: None) -> None:
        self.steps = 0
        self._alive = alive

    def step(self, loss: Tensor | Differentiable, optimiser: Optimiser, weight: float = 1.0) -> float:
        self._alive()
        if not weight:
            return 0.0
        gradients = optimiser.flat.gradients
        assert gradients is not None, "this block was laid out without gradients"
        gradients.zero_()
        loss.backward()
        return advance(optimiser)

    def mean(self, value: Tensor) -> Tensor:
        return value if value.is_floating_point() else value.double()
