"""Heads for numbers (Box): a Gaussian without bounds, and one squashed into the space's bounds."""

from __future__ import annotations

import math

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn
from torch.nn import functional

from shoal.base.errors import InputError
from shoal.models.heads.head import Head, flat_action, shaped_action

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)

NOISE_LOW, NOISE_HIGH = 2.0**-25, 1 - 2.0**-24
"""Uniforms are kept off 0 and 1, where the normal's inverse is infinite: samples lie within 5.4 deviations."""

LOG_STD_LOW, LOG_STD_HIGH = -5.0, 2.0
"""Where a state-dependent deviation may go; outside it learns nothing and, squashed, makes nothing but extremes."""

BOUND = 1 - 2.0**-24
"""The largest float32 below 1: where `atanh` is still finite."""


def normal(noise: Tensor) -> Tensor:
    """Standard normal numbers from uniform ones, by the inverse of the distribution function."""
    return torch.special.ndtri(noise.clamp(NOISE_LOW, NOISE_HIGH))


class Gaussian(Head):
    """Independent normals in the space's own scale. Samples may leave the bounds: the environment's adapter clips.

    Parameters are the means `[..., K]`. The deviation does not depend on the state: it is the head's own parameter
    `log_std` `[K]`, so `parameters` of an older version are evaluated with the current deviation. A mask means nothing here.
    """

    def __init__(self, space: Box, features: int, init_gain: float, log_std: float) -> None:
        size = int(np.prod(space.shape))
        super().__init__(features, size, init_gain)
        self.shape = space.shape
        self.noise_size = size
        self.log_std = nn.Parameter(torch.full((size,), float(log_std)))

    def sample(self, parameters: Tensor, noise: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See Head. Differentiable in the parameters."""
        z = normal(noise)
        action = torch.addcmul(parameters, z, self.log_std.exp())
        return shaped_action(action, self.shape), self._density(z)

    def mode(self, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head."""
        return shaped_action(parameters, self.shape)

    def log_prob(self, parameters: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head."""
        return self._density((flat_action(action, self.shape) - parameters) * self.log_std.neg().exp())

    def entropy(self, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head."""
        total = self.log_std.sum() + self.noise_size * (0.5 + HALF_LOG_2PI)
        return total.expand(parameters.shape[:-1])

    def evaluate(self, parameters: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See Head."""
        return self.log_prob(parameters, action), self.entropy(parameters)

    def _density(self, z: Tensor) -> Tensor:
        """Log-density of the action that lies `z` `[..., K]` deviations from the mean."""
        peak = self.log_std.sum() + self.noise_size * HALF_LOG_2PI
        return (z * z).sum(-1).mul(-0.5) - peak


class SquashedGaussian(Head):
    """A Gaussian through tanh, stretched to the space's bounds (Haarnoja et al. 2018, appendix C).

    Parameters are means and log-deviations before the squashing, `[..., 2K]`, the latter clamped to [-5, 2].
    `entropy` has no closed form. It is the Gaussian's, plus the expected log-determinant of the squashing by
    Gauss-Hermite quadrature at three points: deterministic, within 0.04 nats up to a deviation of 1, and with a maximum
    as the true one has, so that an entropy bonus cannot drive the deviation to infinity. A mask means nothing here.
    """

    middle: Tensor
    scale: Tensor

    def __init__(self, space: Box, features: int, init_gain: float, log_std: float) -> None:
        if not space.is_bounded("both"):
            raise InputError(f"squashed actions need bounds, and {space} has none: turn squash off or bound the space")
        size = int(np.prod(space.shape))
        super().__init__(features, 2 * size, init_gain)
        self.shape = space.shape
        nn.init.constant_(self.linear.bias[size:], log_std)
        self.noise_size = size
        low = torch.from_numpy(space.low.astype(np.float64).reshape(-1))
        high = torch.from_numpy(space.high.astype(np.float64).reshape(-1))
        self.register_buffer("middle", ((high + low) / 2).float(), persistent=False)
        self.register_buffer("scale", ((high - low) / 2).float(), persistent=False)
        # All of the negative log-density that depends neither on the parameters nor on the action.
        self.log_scale = float(((high - low) / 2).log().sum())
        self.constant = self.log_scale + size * (HALF_LOG_2PI + 2 * math.log(2))

    def sample(self, parameters: Tensor, noise: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See Head. Differentiable in the parameters."""
        unit, log_prob = self.squashed(parameters, noise)
        return self.within(unit), log_prob

    def squashed(self, parameters: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """As `sample`, before the stretching: `[..., K]` from -1 to 1. The log-density is still that of the stretched one."""
        mean, log_std = self._split(parameters)
        z = normal(noise)
        raw = torch.addcmul(mean, z, log_std.exp())
        return raw.tanh(), self._density(z, raw, log_std)

    def slope(self, parameters: Tensor, noise: Tensor, unit: Tensor, upstream: tuple[Tensor, Tensor]) -> Tensor:
        """By hand what autograd would say of `squashed`, which gave `unit`: a derivative by the parameters, from those by both of
        its results."""
        log_std = parameters.chunk(2, -1)[1]
        by_unit, by_log_prob = upstream[0], upstream[1].unsqueeze(-1)
        by_raw = by_unit * (1 - unit * unit) + 2 * by_log_prob * unit
        bounded = log_std.clamp(LOG_STD_LOW, LOG_STD_HIGH)
        by_log_std = by_raw * (normal(noise) * bounded.exp()) - by_log_prob
        return torch.cat([by_raw, by_log_std * (bounded == log_std)], -1)

    def within(self, unit: Tensor) -> Tensor:
        """`[..., K]` from -1 to 1, stretched to the bounds."""
        return shaped_action(torch.addcmul(self.middle, unit, self.scale), self.shape)

    def unit(self, action: Tensor) -> Tensor:
        """The inverse of `within`."""
        return (flat_action(action, self.shape) - self.middle) / self.scale

    def mode(self, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        """The squashed mean: the median of the distribution."""
        mean, _ = parameters.chunk(2, -1)
        return self.within(mean.tanh())

    def log_prob(self, parameters: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head. An action on a bound counts as the last one before it, so the answer is finite."""
        mean, log_std = self._split(parameters)
        raw = self._raw(action)
        return self._density((raw - mean) * log_std.neg().exp(), raw, log_std)

    def entropy(self, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        """See the class."""
        return self._entropy(*self._split(parameters))

    def evaluate(self, parameters: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See Head."""
        mean, log_std = self._split(parameters)
        raw = self._raw(action)
        return self._density((raw - mean) * log_std.neg().exp(), raw, log_std), self._entropy(mean, log_std)

    def _split(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = parameters.chunk(2, -1)
        return mean, log_std.clamp(LOG_STD_LOW, LOG_STD_HIGH)

    def _raw(self, action: Tensor) -> Tensor:
        return self.unit(action).clamp(-BOUND, BOUND).atanh()

    def _density(self, z: Tensor, raw: Tensor, log_std: Tensor) -> Tensor:
        """log N(z) - log_std - log(1 - tanh(raw)^2) - log(scale)."""
        return (2 * _log_two_cosh(raw) - log_std - 0.5 * z * z).sum(-1) - self.constant

    def _entropy(self, mean: Tensor, log_std: Tensor) -> Tensor:
        step = log_std.exp() * math.sqrt(3)
        points = torch.stack([mean, mean - step, mean + step])
        middle, low, high = _log_two_cosh(points).unbind(0)
        expected = (4 * middle + low + high) / 6
        return (log_std - 2 * expected).sum(-1) + (self.constant + 0.5 * self.noise_size)


def _log_two_cosh(raw: Tensor) -> Tensor:
    """log(2 cosh(raw)), half of log 4 - log(1 - tanh(raw)^2), without overflow.

    By `logsigmoid`: `softplus` and `logaddexp` round the last elements of a batch otherwise than the rest, and a row's
    answer would depend on its batch.
    """
    return raw - functional.logsigmoid(2 * raw)
