"""Models and policies: a Model turns observations into features, a Policy turns requests into decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from torch import Tensor, nn

from shoal.base.arithmetic import Network
from shoal.base.tree import Tree

if TYPE_CHECKING:
    from gymnasium import Space

    from shoal.base.config import Config


class Model(Network):
    """What users write most. Heads belong to the algorithm.

    A subclass names its settings in a nested `Config` and is built as `Model(observation_space, config)`.
    """

    Config: type[Config]
    features: int
    """Width of what `forward` gives."""
    costly: bool = False
    """Actor and critic share one such model unless the settings say otherwise."""

    def __init__(self, observation_space: Space[Any], config: Any) -> None:
        super().__init__()

    @property
    def rows_alone(self) -> bool:
        return self.initial_state(1) is None

    def initial_state(self, batch: int) -> Tree | None:
        """Recurrent state `[batch, ...]` at the start of an episode; None: this model has no memory."""
        return None

    def prepared(self, observation: Tree) -> Tree:
        """The part of `forward` in which no parameter has a say, for those who show several networks the same rows, `[R, B, ...]`.
        `forward` takes this as well."""
        return observation

    def forward(self, observation: Tree, state: Tree | None, first: Tensor) -> tuple[Tensor, Tree | None]:
        """`[R, B, ...]`, state before row 0, bool `[R, B]` where episodes start -> `[R, B, features]`, state after row R-1."""
        raise NotImplementedError


@dataclass
class Request:
    """B decisions are due. Tensors with leading axis `[B]`."""

    observation: Tree
    first: Tensor
    """bool: an episode starts here."""
    noise: Tensor
    """float32 `[B, policy.noise_size]` in [0, 1): all the randomness a decision may use."""
    state: Tree | None = None
    action_mask: Tensor | None = None
    knobs: Tensor | None = None
    """float32 `[B, len(policy.knobs)]`: what an Explorer set for each lane's episode; None: there is no Explorer."""


@dataclass
class Decision:
    """The answer, in the order of the request."""

    action: Tensor
    extras: dict[str, Tensor]
    state: Tree | None = None


class Quick(Protocol):
    """Decides as `Policy.act` does, on arrays `[B, ...]`, by the parameters as they are. For policies without memory."""

    def __call__(
        self, observation: Any, noise: np.ndarray, mask: np.ndarray | None, *, explore: bool
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Actions, and what is stored for the trainer."""


class Policy(nn.Module, ABC):
    """What acts. A version of it is its parameters and buffers; normaliser statistics are buffers."""

    noise_size: int
    """Uniform numbers one decision uses."""
    noise_hold: int = 1
    """Decisions in a row that share these numbers."""
    extras: dict[str, tuple[int, ...]]
    """Name -> shape per decision of the float32 numbers that `act` notes for the trainer."""
    agents: int = 0
    """Above 0: it is told which of its so many agents decides; requests then have the parts of `shoal.api.sight.Sight`."""
    knobs: tuple[str, ...] = ()
    """Names of the numbers that an Explorer sets for each episode."""

    @abstractmethod
    def initial_state(self, batch: int) -> Tree | None:
        """Recurrent state at the start of an episode, or None."""

    def quick(self) -> Quick | None:
        """`act` on arrays, for networks so small that calls cost more than arithmetic; None: there is no quicker way."""
        return None

    def knob(self, request: Request, name: str) -> Tensor | None:
        """`[B]`: one of its knobs; None: nobody sets it."""
        if request.knobs is None or name not in self.knobs:
            return None
        return request.knobs[:, self.knobs.index(name)]

    @abstractmethod
    def act(self, request: Request, *, explore: bool) -> Decision:
        """Decide. With `explore` as in training, without it greedily. A row's answer depends on that row alone."""

    def appraise(self, request: Request, action: Tensor) -> dict[str, Tensor]:
        """What it thinks of a decision that it made on this request: name -> float32 `[B, ...]`. {}: it has nothing to say.

        Asked by those who watch it play, never in training. Where its critic sees the global state, the request's observation has
        all parts of `shoal.api.sight.Sight`. By custom `value` is the return it expects, `log_prob` the action's log-probability.
        """
        return {}
