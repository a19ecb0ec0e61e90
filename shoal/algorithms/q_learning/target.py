"""Target networks: a second, slower set of parameters to value the future with."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from shoal.base.flat import Flat

Module = TypeVar("Module", bound=nn.Module)


class Target(Generic[Module]):
    """A copy of a module that follows it."""

    def __init__(self, online: Module, flat: Flat) -> None:
        self.module = copy.deepcopy(online)
        self.flat = Flat(self.module, gradients=False)
        self._online = flat

    @torch.no_grad()
    def follow(self, updates: int, *, every: int, tau: float | None) -> None:
        """After update number `updates`, counted from 1: every `every` updates at once, or by a share `tau` at each of them."""
        if tau is not None:
            self.flat.parameters.lerp_(self._online.parameters, tau)
        elif updates % every == 0:
            self.flat.parameters.copy_(self._online.parameters)

    def state_dict(self) -> dict[str, Tensor]:
        """Its parameters."""
        return self.module.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from `state_dict`."""
        self.module.load_state_dict(state)
