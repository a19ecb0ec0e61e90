"""Heads for discrete actions: Discrete, MultiDiscrete, MultiBinary."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import torch
from gymnasium.spaces import Discrete, MultiBinary, MultiDiscrete
from torch import Tensor
from torch.nn import functional

from shoal.base.device import on_cpu
from shoal.models.heads.head import ILLEGAL, Head, flat_action, legal, shaped_action


def draw(log_probs: Tensor, noise: Tensor) -> Tensor:
    """Inverse of the distribution function: `[..., n]`, uniforms `[..., 1]` in [0, 1) -> index int64 `[..., 1]`.

    Action k is taken where cdf[k-1] <= u < cdf[k]. One of probability zero leaves the cdf where it was and is never
    taken. Scaling the noise by the last cdf keeps u below it though rounding may leave the sum short of one. NaN gives
    index 0 (`searchsorted` would give n, and an index error): the log-probability carries it to where it is counted.
    """
    cdf = _cumulated(log_probs.exp())
    return cdf.le(noise * cdf[..., -1:]).sum(-1, keepdim=True)


def _cumulated(probs: Tensor) -> Tensor:
    """On a device `cumsum` adds up in any order, so torch refuses it where results must repeat: there it goes term by term."""
    if on_cpu(probs) or not torch.are_deterministic_algorithms_enabled():
        return probs.cumsum(-1)
    return torch.stack(list(accumulate(probs.unbind(-1))), -1)


def actions_first(logits: Tensor) -> Tensor:
    """Logits `[..., n]` -> log-probabilities `[n, ...]`.

    Over the last axis PyTorch vectorises `log_softmax` from 16 actions on; below, trainers' batches pay up to five times.
    """
    return functional.log_softmax(logits.movedim(-1, 0), 0)


def chosen(log_probs: Tensor, index: Tensor) -> Tensor:
    """The entries of `[n, ...]` that `[...]` points to."""
    return log_probs.gather(0, index.unsqueeze(0)).squeeze(0)


def entropy_of(log_probs: Tensor) -> Tensor:
    """`[n, ...]` -> `[...]`. Forbidden actions add exactly zero: their probability is zero, their log finite."""
    return (log_probs.exp() * log_probs).sum(0).neg()


class Categorical(Head):
    """One of n. Parameters are logits `[..., n]`; one uniform per decision; mask `[..., n]`."""

    noise_size = 1

    def __init__(self, space: Discrete, features: int, init_gain: float) -> None:
        super().__init__(features, int(space.n), init_gain)
        self.start = int(space.start)

    def sample(self, parameters: Tensor, noise: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See Head."""
        log_probs = functional.log_softmax(legal(parameters, mask), -1)
        index = draw(log_probs, noise)
        return self._action(index.squeeze(-1)), log_probs.gather(-1, index).squeeze(-1)

    def mode(self, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head."""
        return self._action(legal(parameters, mask).argmax(-1))

    def log_prob(self, parameters: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head."""
        return chosen(actions_first(legal(parameters, mask)), self._index(action))

    def entropy(self, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head."""
        return entropy_of(actions_first(legal(parameters, mask)))

    def evaluate(self, parameters: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See Head."""
        log_probs = actions_first(legal(parameters, mask))
        return chosen(log_probs, self._index(action)), entropy_of(log_probs)

    def _action(self, index: Tensor) -> Tensor:
        return index + self.start if self.start else index

    def _index(self, action: Tensor) -> Tensor:
        return action - self.start if self.start else action


class MultiCategorical(Head):
    """A MultiDiscrete action: several parts, independent given the features.

    Parameters are the logits of all parts side by side, `[..., sum(nvec)]`, and so is the mask; one uniform per
    part. Parts of unequal size are padded to the largest, so that all are computed together.
    """

    position: Tensor
    real: Tensor
    start: Tensor

    def __init__(self, space: MultiDiscrete, features: int, init_gain: float) -> None:
        sizes = space.nvec.reshape(-1)
        super().__init__(features, int(sizes.sum()), init_gain)
        self.noise_size = len(sizes)
        self.shape = space.shape
        self.padded = (len(sizes), int(sizes.max()))
        self.even = bool((sizes == sizes[0]).all())
        self.shifted = bool(space.start.any())
        real = np.arange(sizes.max()) < sizes[:, None]
        position = np.where(real, np.cumsum(real).reshape(real.shape) - 1, 0)
        self.register_buffer("position", torch.from_numpy(position.reshape(-1)), persistent=False)
        self.register_buffer("real", torch.from_numpy(real), persistent=False)
        start = torch.from_numpy(space.start.reshape(-1).astype(np.int64))
        self.register_buffer("start", start, persistent=False)

    def sample(self, parameters: Tensor, noise: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See Head."""
        log_probs = functional.log_softmax(self._logits(parameters, mask), -1)
        index = draw(log_probs, noise.unsqueeze(-1))
        return self._action(index.squeeze(-1)), log_probs.gather(-1, index).squeeze(-1).sum(-1)

    def mode(self, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head."""
        return self._action(self._logits(parameters, mask).argmax(-1))

    def log_prob(self, parameters: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head."""
        return chosen(actions_first(self._logits(parameters, mask)), self._index(action)).sum(-1)

    def entropy(self, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head."""
        return entropy_of(actions_first(self._logits(parameters, mask))).sum(-1)

    def evaluate(self, parameters: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See Head."""
        log_probs = actions_first(self._logits(parameters, mask))
        return chosen(log_probs, self._index(action)).sum(-1), entropy_of(log_probs).sum(-1)

    def _logits(self, parameters: Tensor, mask: Tensor | None) -> Tensor:
        logits = legal(parameters, mask)
        if self.even:
            return logits.unflatten(-1, self.padded)
        logits = logits.index_select(-1, self.position).unflatten(-1, self.padded)
        # Twice as far out as forbidden actions: where a mask forbids all, padding is still never taken.
        return torch.where(self.real, logits, 2 * ILLEGAL)

    def _action(self, index: Tensor) -> Tensor:
        return shaped_action(index + self.start if self.shifted else index, self.shape)

    def _index(self, action: Tensor) -> Tensor:
        flat = flat_action(action, self.shape)
        return flat - self.start if self.shifted else flat


class Bernoulli(Head):
    """Bits, independent given the features. Parameters are logits `[..., K]`; a bit with mask False stays 0.

    log(1 - p) is `logsigmoid(-logits)`, not `-softplus(logits)`: the latter rounds the last elements of a batch otherwise
    than the rest, and a row's answer would depend on its batch.
    """

    def __init__(self, space: MultiBinary, features: int, init_gain: float) -> None:
        size = int(np.prod(space.shape))
        super().__init__(features, size, init_gain)
        self.shape = space.shape
        self.noise_size = size

    def sample(self, parameters: Tensor, noise: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See Head."""
        logits = legal(parameters, mask)
        log_not = functional.logsigmoid(-logits)
        bits = (noise < (logits + log_not).exp()).long()
        return shaped_action(bits, self.shape), (logits * bits + log_not).sum(-1)

    def mode(self, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head."""
        return shaped_action((legal(parameters, mask) > 0).long(), self.shape)

    def log_prob(self, parameters: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head."""
        return self.evaluate(parameters, action, mask)[0]

    def entropy(self, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        """See Head."""
        logits = legal(parameters, mask)
        return -(functional.logsigmoid(-logits) + logits * logits.sigmoid()).sum(-1)

    def evaluate(self, parameters: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See Head."""
        logits = legal(parameters, mask)
        log_not = functional.logsigmoid(-logits)
        log_prob = (logits * flat_action(action, self.shape) + log_not).sum(-1)
        return log_prob, -(log_not + logits * logits.sigmoid()).sum(-1)
