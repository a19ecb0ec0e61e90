"""Target networks: a second, slower set of parameters to value the future with."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from shoal.base.flat import Flat

Module = TypeVar("Module", bound=nn.Module)


class Target(Generic[Module]):
    """A copy of a module that follows it: every `every` updates at once, or by a share `tau` at each of them."""

    def __init__(self, online: Module, flat: Flat, *, every: int, tau: float | None) -> None:
        self.module = copy.deepcopy(online)
        self._flat = Flat(self.module, gradients=False)
        self._online, self._every, self._tau = flat, every, tau

    @torch.no_grad()
    def follow(self, updates: int) -> None:
        """After update number `updates`, counted from 1."""
        if self._tau is not None:
            self._flat.parameters.lerp_(self._online.parameters, self._tau)
        elif updates % self._every == 0:
            self._flat.parameters.copy_(self._online.parameters)

    def state_dict(self) -> dict[str, Tensor]:
        """Its parameters."""
        return self.module.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from `state_dict`."""
        self.module.load_state_dict(state)
