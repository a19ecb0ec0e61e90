"""How the replicas of one trainer agree: by the mean of their gradients (`allreduce`), or by sharing one memory (`hogwild`).

`AllreduceLearner` takes the place of `SoloLearner`: the same calls, and a round of a Tally in each. A replica trains by `hogwild`
with `SoloLearner` itself, once `adopt_shared` has put parameters and optimisers into memory that all replicas share.

What may fail where, so that nobody is left waiting:

- A NaN, or a NonFiniteError from a loss's `backward`, goes into the sum, so all replicas raise NonFiniteError in the same step.
- A batch that is not fit is refused by all before the update: its trainer lets them agree on it, by `mean`.
- Any other exception ends the replica. Its owner sees that and abandons the tally, so the others raise AbandonedError.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

from shoal.algorithms.learner import Collecting, advance
from shoal.api.algorithm import Algorithm, Differentiable, NonFiniteError, Optimiser
from shoal.base.device import on_cpu
from shoal.base.errors import ShoalError
from shoal.base.flat import Flat
from shoal.streams.primitives import Tally
from shoal.streams.transports.shm.shared_block import SharedBlock

PATIENCE = 600.0
"""Seconds to wait for the other replicas. A dead one is seen long before, by its owner: this is for one that hangs."""

LOOK = 0.5
"""Seconds between two signs of life of a replica that waits."""

_SUMMED = (torch.float32, torch.float64)


class AllreduceLearner(Collecting):
    """One of several replicas that start from equal parameters, and stay equal to the last bit.

    `alive` is called with every step, and while it waits for the others.
    """

    def __init__(
        self, tally: Tally, rank: int, patience: float = PATIENCE, alive: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self._tally, self._rank, self._patience, self._alive = tally, rank, patience, alive
        self._messages: dict[tuple[int, torch.dtype], _Message] = {}

    def step(self, loss: Tensor | Differentiable, optimiser: Optimiser, weight: float = 1.0) -> float:
        gradients = optimiser.flat.gradients
        assert gradients is not None, "this block was laid out without gradients"
        gradients.zero_()
        failure = _backward(loss, gradients) if weight else None
        message = self._message(len(gradients), gradients.dtype)
        if on_cpu(gradients):
            torch.mul(gradients, weight, out=message.body)
        else:
            message.body.copy_(gradients).mul_(weight)
        message.array[-1] = weight
        self._sum(message.array)
        total = float(message.array[-1])
        if total == 0.0:
            return 0.0
        if on_cpu(gradients):
            torch.div(message.body, total, out=gradients)
        else:
            gradients.copy_(message.body.div_(total))
        try:
            return self._kept(advance(optimiser))
        except NonFiniteError as error:
            raise failure or error from None

    def mean(self, value: Tensor) -> Tensor:
        kind = value.dtype if value.is_floating_point() else torch.float64
        message = value.detach().flatten().to("cpu", kind if kind in _SUMMED else torch.float32, copy=True)
        self._sum(message.numpy())
        return message.div_(self._tally.ranks).to(value.device, kind).view(value.shape)

    def _message(self, count: int, kind: torch.dtype) -> _Message:
        """Kept for each length: a trainer has one or a few, and cutting views takes as long as the arithmetic on small blocks."""
        if (count, kind) not in self._messages:
            self._messages[count, kind] = _Message(count, kind)
        return self._messages[count, kind]

    def _sum(self, vector: np.ndarray) -> None:
        """In place, over all replicas, in pieces that the tally has room for."""
        room = self._tally.nbytes // vector.itemsize
        try:
            for start in range(0, len(vector), room):
                piece = vector[start : start + room]
                piece[:] = self._sum_piece(piece)
        except TimeoutError as error:
            raise ShoalError(f"replica {self._rank} waits in vain: {error}; see the logs of those") from error

    def _sum_piece(self, piece: np.ndarray) -> np.ndarray:
        """Who waits for the others says so: it is not the one that hangs."""
        deadline, left = time.monotonic() + self._patience, self._patience
        while True:
            self._alive()
            try:
                return self._tally.sum(self._rank, piece, min(LOOK, max(0.0, left)))
            except TimeoutError:
                if left <= LOOK:
                    raise
            left = deadline - time.monotonic()


class _Message:
    """array   float [count + 1]: a gradient, then its weight; float16 and the like are summed as float32
    body    float [count]: the gradient, a view of it
    """

    def __init__(self, count: int, kind: torch.dtype) -> None:
        whole = torch.empty(count + 1, dtype=kind if kind in _SUMMED else torch.float32)
        self.array, self.body = whole.numpy(), whole[:-1]


def _backward(loss: Tensor | Differentiable, gradients: Tensor) -> NonFiniteError | None:
    """The gradient, or NaN everywhere: the others wait for this replica's part, and a NaN tells them."""
    try:
        loss.backward()
    except NonFiniteError as error:
        gradients.fill_(float("nan"))
        return error
    return None


def tally_nbytes(algorithm: Algorithm) -> int:
    """Room for one step of the largest block in one piece."""
    blocks = [optimiser.flat.parameters for optimiser in algorithm.optimisers]
    return max((block.numel() + 1) * max(block.itemsize, 4) for block in blocks)


def nbytes_beside(algorithm: Algorithm) -> int:
    """What `adopt_shared` needs apart from the policy's block."""
    return sum(flat.nbytes for flat in _beside(algorithm))


def adopt_shared(algorithm: Algorithm, block: Tensor, beside: Tensor, *, fill: bool) -> None:
    """Let the policy live in `block`, and optimisers and their other blocks in `beside`: memory that all replicas share.

    One replica fills both with what it holds, before any other comes and takes what is there.
    """
    algorithm.flat.adopt(block, fill=fill)
    flats = _beside(algorithm)
    for flat, (start, stop) in zip(flats, pairwise(accumulate((f.nbytes for f in flats), initial=0)), strict=True):
        flat.adopt(beside[start:stop], fill=fill)


def adopt_shared_in(shared: SharedBlock, algorithm: Algorithm, *, fill: bool) -> None:
    """The same, in a block that processes share."""
    adopt_shared(algorithm, torch.from_numpy(shared.block), torch.from_numpy(shared.beside), fill=fill)


def _beside(algorithm: Algorithm) -> list[Flat]:
    """Every block but the policy's, once each, in the order of the optimisers."""
    flats = [flat for optimiser in algorithm.optimisers for flat in (optimiser.flat, optimiser.statistics)]
    return list({id(flat): flat for flat in flats if flat is not algorithm.flat}.values())
