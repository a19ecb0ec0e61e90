"""What learns: an Algorithm owns a Policy and its optimisers, says what it needs, and turns batches into better versions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor

from shoal.base.arithmetic import PLAIN, Arithmetic, compute_by
from shoal.base.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import Space

    from shoal.api.env import AgentGroup
    from shoal.api.explorer import Explorer
    from shoal.api.fragment import Fragment
    from shoal.api.metric import Metric
    from shoal.api.policy import Policy
    from shoal.base.config import Config, Named, Schedule
    from shoal.base.flat import Flat


Agreement = Literal["allreduce", "hogwild"]
"""How the replicas of one trainer agree: by the mean of their gradients, or by writing into the same parameters."""


TeamReward = Literal["sum", "mean", "first"]
"""Rewards of agents as one: added up, their mean, or that of the first agent (where all earn the same)."""


@dataclass(frozen=True)
class Priorities:
    """Draw sequences in proportion to `priority ** alpha`, and weigh them by `chance ** -beta` (Schaul et al. 2016)."""

    alpha: float
    beta: float | Schedule
    horizon: int | None = None
    """Where beta's schedule ends if it does not say."""
    first: bool = False
    """`Algorithm.prepare` gives new sequences their first priorities; otherwise they get the greatest that was seen."""


@dataclass(frozen=True)
class Replay:
    """How experience is kept and learned from again. A round is what one batch of fragments holds."""

    capacity: int
    """Rows that are kept."""
    sequences: int
    """In one batch, over all replicas of the trainer."""
    updates: int
    """Batches per round."""
    warmup: int = 1
    """Rows that must be there before the first update."""
    priorities: Priorities | None = None
    """Draw by priorities, which `Update` then carries; None: all sequences alike."""


@dataclass(frozen=True)
class Needs:
    """What an algorithm asks of the pipeline."""

    unroll: int
    """Decisions per lane and fragment."""
    bootstrap: int = 1
    """Rows behind the last decision, seen but not learned from."""
    burn_in: int = 0
    """Rows before the first, repeated from the fragment before, to warm recurrent state."""
    max_lag: int = 0
    """How many versions old experience may be when the experiment does not say."""
    agree: Agreement = "allreduce"
    """How replicas of the trainer agree when the experiment does not say."""
    global_state: bool = False
    """Lanes store what a central critic sees: observations are then those of `shoal.api.sight.Sight`."""
    lane: Literal["agent", "env"] = "agent"
    """What a lane follows: one agent, or one env copy with its agents side by side (`rollout/team.py`)."""
    team_reward: TeamReward = "sum"
    """Where a lane is an env copy: what the agents' rewards are to it."""
    replay: Replay | None = None
    """Learn from kept experience; None: from each batch once, as it comes."""
    stored_extras: dict[str, tuple[int, ...]] | None = None
    """Name -> shape of the float32 extras that its Explorer stores at each decision; None: what the policy gives."""


@dataclass(frozen=True)
class Task:
    """What an algorithm is built for."""

    group: AgentGroup
    lanes: int
    """Lanes in one batch, over all actors and all replicas of the trainer."""
    seed: int
    horizon: int | None = None
    """`stop.steps`, where schedules end by default."""
    replicas: int = 1
    """Of the trainer: a batch as `update` sees it has `lanes / replicas` lanes, and every replica takes as many steps."""
    state_space: Space[Any] | None = None
    """What a central critic would see: the environment's state, or all that all agents see."""
    all_lanes: int = 0
    """Of the whole run, which a fragment's `lanes` number; 0: as many as in one batch."""


@dataclass
class Update:
    """What one `update` has to say."""

    metrics: dict[str, Metric] = field(default_factory=dict)
    """Their values may be tensors `[]` of the algorithm's device: see `Learner.collect`."""
    priorities: Tensor | None = None
    """`[B]`: of the batch's lanes, from 0 on; with `Replay.priorities` alone."""


class Optimiser(Protocol):
    """Moves one flat block of parameters along its gradient."""

    flat: Flat
    lr: float
    max_grad_norm: float
    statistics: Flat
    """All that it remembers, in one block: moments, counts. Replicas that train by `hogwild` share it."""

    def apply(self, skipped: Tensor | None = None) -> None:
        """One step along `flat.gradients`. `skipped`, on a device alone: float `[]`, 1 where nothing is to change."""


class Differentiable(Protocol):
    """A loss: a scalar tensor, or whatever else can write its gradient."""

    def backward(self) -> None:
        """Add the gradient to every parameter's `.grad`."""


class Learner(Protocol):
    """The one place with backward, finite check, agreement of replicas, clipping and optimiser step."""

    steps: int
    """Environment steps of the run behind the batch in hand: what schedules follow."""

    def step(self, loss: Tensor | Differentiable, optimiser: Optimiser, weight: float = 1.0) -> float:
        """One parameter change; the gradient's norm before clipping. NonFiniteError leaves the parameters untouched.

        On a device nobody waits for the norm: it is a tensor `[]` to make a metric of, and the error comes with `collect`.

        `weight`: rows behind a loss that is a mean over rows. Replicas agree on the mean over all their rows; one that has none
        this time says 0 and steps along with the others. So all of them call `step` and `mean` equally often, in equal order.
        """

    def mean(self, value: Tensor) -> Tensor:
        """The mean over the replicas of this trainer: what they must share. Of equal shape on all; whole numbers give float64."""

    def collect(self, update: Update) -> Update:
        """What an update has to say, with all that is still on a device brought over at once. After every `Algorithm.update`."""
        return update


class NonFiniteError(ArithmeticError):
    """A loss or gradient was NaN or infinite; its text names the source.

    An algorithm may raise it from a loss's `backward`, or wherever all replicas raise alike, which is after `step` or `mean`.
    Anywhere else the others would wait for a replica that has left: let a NaN flow on into the loss instead.
    """


class Algorithm(ABC):
    """A way to learn. Built as `Class(config, model, task)`; its settings are the nested `Config`."""

    Config: type[Config]
    needs: Needs
    policy: Policy
    flat: Flat
    """The policy's block: what is published."""
    optimisers: tuple[Optimiser, ...]
    """All of them, in a fixed order: what `hogwild` moves into shared memory, with their blocks."""
    key_metrics: ClassVar[tuple[str, ...]] = ()
    """The few of its `train/...` metrics that tell whether it learns, without `train/`: the live view shows them in this order,
    passing over what an update does not give. None named: the first few that come."""
    notes: tuple[str, ...] = ()
    """What a user should know of the settings, a line each: said when a run begins."""
    updates: int = 0
    """How many updates have been made: what random orders are counted by."""
    device: torch.device = torch.device("cpu")
    """Where it lives: that of the batches it learns from."""
    arithmetic: Arithmetic = PLAIN
    """How its networks compute. Losses, advantages, statistics and optimisers are float32 whatever it is."""

    @abstractmethod
    def __init__(self, config: Any, model: Named, task: Task) -> None: ...

    def explorer(self, lanes: np.ndarray) -> Explorer | None:
        """For the lanes of one seat, by their run-wide numbers; called in the actor. None: all explore as the policy does."""
        return None

    def prepare(self, fragment: Fragment) -> Fragment:
        """What an actor posts, out of what it played: arrays in, arrays of equal shape out. Pure; it knows no parameters.

        With `Priorities.first` it gives the fragment its `priority`.
        """
        return fragment

    @abstractmethod
    def update(self, batch: Fragment, learner: Learner) -> Update:
        """Learn from one batch of tensors; afterwards `flat.block` is the next version."""

    def reconfigure(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Change settings while the run goes on: key of the config (`lr`, `novelty.weight`) -> new value.

        Returns the values now in use of all settings that may change: learning rates as the optimisers have them, a schedule
        as its value at the last update. Changes count from the next update on and belong to `state_dict`. One that is unknown,
        out of range or part of the structure is an InputError, and then nothing changes. Whoever holds an algorithm of its own
        to `prepare` fragments with is told too.
        """
        for key, value in changes.items():
            raise InputError(
                f"algorithm.{key} = {value!r}: {type(self).__name__} has no settings that can be changed while a run goes on: "
                "start a new run with it, or write its `reconfigure`"
            )
        return {}

    def flats(self) -> list[Flat]:
        """All that it remembers: the policy, and the blocks and moments of all optimisers. A subclass adds targets and the like.

        A copy of them is what it takes to go back to the state before an `update`; what does not lie in one, other than
        `updates`, is a subclass's to see to. They are what moves to another device.
        """
        flats = [self.flat, *(flat for optimiser in self.optimisers for flat in (optimiser.flat, optimiser.statistics))]
        return list(dict.fromkeys(flats))

    def blocks(self) -> list[Tensor]:
        """The memory of `flats`, as uint8 tensors."""
        return [flat.block for flat in self.flats()]

    def to(self, device: torch.device) -> None:
        """Live on another device from now on, with the same numbers. States are saved from any and loaded on any."""
        for flat in self.flats():
            flat.to(device)
        self.device = device
        self.moved()

    def compute_by(self, arithmetic: Arithmetic) -> None:
        """Let its networks compute so from now on: they are found in `flats`."""
        for flat in self.flats():
            compute_by(flat.module, arithmetic)
        self.arithmetic = arithmetic
        self.moved()

    def moved(self) -> None:
        """It lives on `device` now, and computes by `arithmetic`: what was chosen for those before, or lies in no block, is a
        subclass's to see to."""
        return

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to go on: policy, optimiser, counters. Names are stable between releases."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from `state_dict`."""
