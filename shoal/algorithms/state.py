"""A state by its parts: what several modules and optimisers remember, as one dict of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor


class Stateful(Protocol):
    """A module, an optimiser, a target."""

    def state_dict(self) -> dict[str, Tensor]: ...


def joined(parts: Mapping[str, Stateful]) -> dict[str, Tensor]:
    """All their entries, each under the name of its part: `policy.head.weight`."""
    return {f"{name}.{key}": value for name, own in parts.items() for key, value in own.state_dict().items()}


def part(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The entries under a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
