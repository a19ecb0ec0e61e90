"""Where losses become parameter changes: Adam over one flat block, and the one place that calls backward."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.optim.adam import adam

from shoal.api.algorithm import Differentiable, Learner, NonFiniteError, Optimiser
from shoal.base.flat import Flat


class Adam(Optimiser):
    """Adam (Kingma & Ba 2015) with a bound on the gradient's norm.

    One fused call on the flat block: `torch.optim.Adam` spends more time around that call than in it.
    """

    def __init__(self, flat: Flat, *, lr: float, max_grad_norm: float, eps: float = 1e-5) -> None:
        self.flat, self.lr, self.max_grad_norm, self._eps = flat, lr, max_grad_norm, eps
        self._mean, self._square = torch.zeros_like(flat.parameters), torch.zeros_like(flat.parameters)
        self._steps = torch.zeros((), device=flat.parameters.device)

    @torch.no_grad()
    def apply(self) -> None:
        """One step along `flat.gradients`."""
        assert self.flat.gradients is not None, "this block was laid out without gradients"
        adam(
            [self.flat.parameters], [self.flat.gradients], [self._mean], [self._square], [], [self._steps],
            fused=True, amsgrad=False, beta1=0.9, beta2=0.999, lr=self.lr, weight_decay=0.0, eps=self._eps, maximize=False,
        )  # fmt: skip

    def state_dict(self) -> dict[str, Tensor]:
        """First and second moments and the count of steps."""
        return {"mean": self._mean, "square": self._square, "steps": self._steps}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from `state_dict`."""
        self._mean.copy_(state["mean"])
        self._square.copy_(state["square"])
        self._steps.copy_(state["steps"])


class SoloLearner(Learner):
    """A trainer without replicas."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, loss: Tensor | Differentiable, optimiser: Optimiser, weight: float = 1.0) -> float:
        if not weight:
            return 0.0
        gradients = optimiser.flat.gradients
        assert gradients is not None, "this block was laid out without gradients"
        gradients.zero_()
        loss.backward()
        norm = float(torch.linalg.vector_norm(gradients))
        if not math.isfinite(norm):
            raise NonFiniteError(f"the gradient's norm is {norm}")
        if norm > optimiser.max_grad_norm:
            gradients.mul_(optimiser.max_grad_norm / (norm + 1e-6))
        optimiser.apply()
        return norm

    def mean(self, value: Tensor) -> Tensor:
        return value
