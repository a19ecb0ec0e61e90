"""Where losses become parameter changes: Adam over one flat block, and the one place that calls backward."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from shoal.api.algorithm import Learner, NonFiniteError, Optimiser
from shoal.base.flat import Flat


class Adam(Optimiser):
    """Adam (Kingma & Ba 2015) with a bound on the gradient's norm."""

    def __init__(self, flat: Flat, *, lr: float, max_grad_norm: float, eps: float = 1e-5) -> None:
        self.flat, self.max_grad_norm = flat, max_grad_norm
        self._whole = nn.Parameter(flat.parameters)
        self._whole.grad = flat.gradients
        self._adam = torch.optim.Adam([self._whole], lr=lr, eps=eps, fused=True)

    @property
    def lr(self) -> float:
        """The step size now in use."""
        return float(self._adam.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        self._adam.param_groups[0]["lr"] = value

    def apply(self) -> None:
        """One step along `flat.gradients`."""
        self._adam.step()

    def state_dict(self) -> dict[str, Tensor]:
        """First and second moments and the count of steps; empty before the first step."""
        state = self._adam.state.get(self._whole, {})
        return {name: value.clone() for name, value in state.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from `state_dict`."""
        self._adam.state[self._whole] = {name: value.clone() for name, value in state.items()}


class SoloLearner(Learner):
    """A trainer without replicas."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, loss: Tensor, optimiser: Optimiser) -> float:
        gradients = optimiser.flat.gradients
        assert gradients is not None, "this block was laid out without gradients"
        gradients.zero_()
        loss.backward()
        norm = float(torch.linalg.vector_norm(gradients))
        if not math.isfinite(norm):
            raise NonFiniteError(f"gradient norm {norm} from a loss of {float(loss.detach())}")
        if norm > optimiser.max_grad_norm:
            gradients.mul_(optimiser.max_grad_norm / (norm + 1e-6))
        optimiser.apply()
        return norm

    def mean(self, value: Tensor) -> Tensor:
        return value
