"""Where losses become parameter changes: Adam over one flat block, and the one place that calls backward."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from shoal.api.algorithm import Differentiable, Learner, NonFiniteError, Optimiser, Update
from shoal.base.device import on_cpu
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
    def apply(self, skipped: Tensor | None = None) -> None:
        """One step along `flat.gradients`. `skipped`: float `[]` on their device, 1 where nothing is to change."""
        assert self.flat.gradients is not None, "this block was laid out without gradients"
        now = self._moments
        now.steps.add_(1 if skipped is None else 1 - skipped)
        torch._fused_adam_(
            [self.flat.parameters], [self.flat.gradients], [now.mean], [now.square], [], [now.steps],
            lr=self.lr, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=self._eps, amsgrad=False, maximize=False,
            found_inf=skipped,
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
    if not on_cpu(gradients):
        return _advance_on_device(optimiser, gradients)
    norm = float(torch.linalg.vector_norm(gradients))
    if not math.isfinite(norm):
        raise NonFiniteError(f"the gradient's norm is {norm}")
    if norm > optimiser.max_grad_norm:
        gradients.mul_(optimiser.max_grad_norm / (norm + 1e-6))
    optimiser.apply()
    return norm


@torch.no_grad()
def _advance_on_device(optimiser: Optimiser, gradients: Tensor) -> Any:
    """The same without waiting: a gradient that is not finite changes nothing there, and the norm, a tensor, tells."""
    norm = torch.linalg.vector_norm(gradients)
    gradients.mul_((optimiser.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
    optimiser.apply((~norm.isfinite()).to(norm.dtype))
    return norm


def number(x: Tensor | float) -> float:
    """A tensor `[]` as the value of a metric: on the CPU a float; from a device it comes over with all others, by `collect`."""
    return x if isinstance(x, float) or not on_cpu(x) else float(x)  # type: ignore[return-value]


class Collecting(Learner):
    """Keeps the norms of steps on a device, until they are looked at together with the metrics."""

    def __init__(self) -> None:
        self.steps = 0
        self._norms: list[Tensor] = []

    def _kept(self, norm: float) -> float:
        if isinstance(norm, Tensor):
            self._norms.append(norm)
        return norm

    def collect(self, update: Update) -> Update:
        metrics, norms = update.metrics, self._norms
        late = [name for name, metric in metrics.items() if isinstance(metric.value, Tensor)]
        if not (late or norms):
            return update
        self._norms = []
        numbers: list[Any] = [*(metrics[name].value for name in late), *norms]
        told = [torch.stack([each.detach().to(torch.float32) for each in numbers])]
        if update.priorities is not None:
            told.append(update.priorities)
        values, priorities = torch.cat(told).cpu().split([len(numbers), sum(map(len, told[1:]))])
        if bad := [norm for norm in values[len(late) :].tolist() if not math.isfinite(norm)]:
            raise NonFiniteError(f"the gradient's norm is {bad[0]}")
        own = {name: replace(metrics[name], value=value) for name, value in zip(late, values.tolist(), strict=False)}
        return Update({**metrics, **own}, None if update.priorities is None else priorities)


class SoloLearner(Collecting):
    """A trainer without replicas, or a replica that trains by `hogwild`: the others are in the parameters.

    `alive` is called with every step: an update may be long.
    """

    def __init__(self, alive: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._alive = alive

    def step(self, loss: Tensor | Differentiable, optimiser: Optimiser, weight: float = 1.0) -> float:
        self._alive()
        if not weight:
            return 0.0
        gradients = optimiser.flat.gradients
        assert gradients is not None, "this block was laid out without gradients"
        gradients.zero_()
        loss.backward()
        return self._kept(advance(optimiser))

    def mean(self, value: Tensor) -> Tensor:
        return value if value.is_floating_point() else value.double()
