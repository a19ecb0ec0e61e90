"""What all learners of action values share: replay, a target network, one Adam, schedules, and the step along the error."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from gymnasium.spaces import Discrete
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from shoal.algorithms.learner import Adam, number
from shoal.algorithms.q_learning.burn_in import warmed_up
from shoal.algorithms.q_learning.ladder import Ladder, LadderExplorer, rate_at
from shoal.algorithms.q_learning.priorities import by_row, priorities_of
from shoal.algorithms.q_learning.replayed import ReplayedConfig
from shoal.algorithms.q_learning.rescaling import rescaled, restored
from shoal.algorithms.q_learning.target import Target
from shoal.algorithms.returns import n_step
from shoal.algorithms.rows import places_of
from shoal.algorithms.settings import (
    Live,
    check_schedules,
    live_settings,
    reconfigured,
    restored_settings,
    settings_state,
)
from shoal.algorithms.state import joined, part
from shoal.api.algorithm import Algorithm, Differentiable, Learner, Needs, Task, Update
from shoal.api.env import AgentGroup
from shoal.api.explorer import Explorer
from shoal.api.fragment import Fragment
from shoal.api.metric import Last, Mean, Metric
from shoal.api.policy import Policy
from shoal.base.config import Count, Rate, Schedule, value_at, within
from shoal.base.errors import InputError
from shoal.base.flat import Flat
from shoal.base.tree import Tree


class QLearningConfig(ReplayedConfig):
    """The settings that all of them have."""

    lr: Live[Rate] = 1e-3
    """Learning rate of Adam; a number, or `{start, end, steps}` to anneal it linearly."""
    epsilon: Live[Annotated[float | Schedule | Ladder, within(0, 1)]] = Schedule(start=1.0, end=0.05, steps=10_000)
    """Chance of a random action; a number, a straight line over environment steps, or `{base, alpha}`: a rate for each lane."""
    double: bool = True
    """The newest parameters choose the next action, the target network values it; otherwise the target network does both."""
    dueling: bool = False
    """Split values into that of the situation and what each action adds."""
    rescale: bool = False
    """Learn values squeezed by h(x) = sign(x) (sqrt(|x| + 1) - 1) + 0.001 x: for rewards of very different size, unclipped."""
    loss: Literal["huber", "squared"] = "huber"
    """What is made of an error: `huber` grows straight beyond 1, `squared` is half its square."""
    target_every: Live[Count] = Field(100, ge=1)
    """Updates between two copies into the target network."""
    tau: Live[float | None] = Field(None, gt=0, le=1)
    """Move the target network by this share after every update, instead of a copy now and then."""
    burn_in: Count = Field(0, ge=0)
    """Rows before a sequence, repeated from the one before, that only bring its recurrent state up to date."""
    max_grad_norm: Live[float] = Field(10.0, gt=0)
    """Bound on the gradient's norm."""


class ActionValues(NamedTuple):
    """What the rows behind the burn-in say: `[R, B]` each, or `[R, B, A]` where a lane's agents are evaluated one by one."""

    chosen: Tensor
    """Value of the action taken, with its graph."""
    following: Tensor
    """Value of the best action, by the target network."""
    counts: Tensor
    """bool: to learn from."""


class QLearning(Algorithm):
    """Owns a policy with its target and one Adam. A subclass builds the policy and evaluates batches."""

    key_metrics: ClassVar[tuple[str, ...]] = ("td_error", "epsilon", "q_mean", "target_mean", "loss")
    target: Target[Any]

    def __init__(self, config: QLearningConfig, task: Task, needs: Needs) -> None:
        self.settings, self.needs, self.task = config, needs, task
        self._built, self._steps = config, 0
        check_schedules(config, task.horizon)

    @property
    def lanes(self) -> int:
        """Of the whole run, whoever plays them now."""
        lanes = self.task.all_lanes or self.task.lanes
        return lanes // len(self.task.group.agents) if self.needs.lane == "env" else lanes

    def rate(self, steps: int) -> float:
        """Chance of a random action after so many steps; of a ladder, the mean over its lanes."""
        return rate_at(self.settings.epsilon, steps, self.task.horizon, self.lanes)

    def explorer(self, lanes: np.ndarray) -> Explorer | None:
        return self._ladder(lanes)

    def _ladder(self, lanes: np.ndarray) -> LadderExplorer | None:
        ladder = self.settings.epsilon
        return LadderExplorer(ladder, lanes, self.lanes) if isinstance(ladder, Ladder) else None

    def _own(self, policy: Policy) -> None:
        """Lay the policy out, and give it a target and an optimiser."""
        config = self.settings
        policy.knobs = ("epsilon",) if isinstance(config.epsilon, Ladder) else ()
        self.policy, self.flat = policy, Flat(policy, gradients=True)
        self.target = Target(policy, self.flat)
        lr = value_at(config.lr, 0, self.task.horizon)
        self.optimiser = Adam(self.flat, lr=lr, max_grad_norm=config.max_grad_norm)
        self.optimisers = (self.optimiser,)

    @abstractmethod
    def _evaluate(self, batch: Fragment) -> ActionValues:
        """Value the actions of a batch behind its burn-in, and what could follow."""

    @property
    def behind(self) -> slice:
        """The rows behind the burn-in: those that are learned from."""
        return slice(self.settings.burn_in, None)

    def _values(self, observation: Tree, batch: Fragment) -> tuple[Tensor, Tensor]:
        """Of the rows behind the burn-in, by the newest parameters, with their graph, and by the target network.

        Both warm up from the stored state, each for itself and without a graph: so the state is one of theirs before they learn.
        """
        with torch.no_grad():
            target = warmed_up(self.target.module, observation, batch, self.settings.burn_in)
        return warmed_up(self.policy, observation, batch, self.settings.burn_in), target

    @property
    @abstractmethod
    def epsilon(self) -> Tensor:
        """The policy's chance of a random action: a buffer, so that it travels with the version."""

    def update(self, batch: Fragment, learner: Learner) -> Update:
        config, self._steps = self.settings, learner.steps
        self.optimiser.lr = self._now(config.lr)
        self.epsilon.fill_(self.rate(learner.steps))
        batch = self._prepared(batch)
        action_values = self._evaluate(batch)
        places = places_of(action_values.counts)
        target = self.targets(batch, action_values).flatten().index_select(0, places)
        chosen = action_values.chosen.flatten().index_select(0, places)
        weights = None if batch.weights is None else by_row(batch.weights, action_values.counts, places)
        loss = self.arithmetic.loss(td_loss)(chosen, target, config.loss, weights)
        error = chosen.detach() - target
        beside, more = self._beside(batch, learner)
        own = self._descent(loss, batch, action_values, lambda: td_slope(error, config.loss, weights))
        norm = learner.step(own if beside is None else loss + beside, self.optimiser, len(chosen))
        self.updates += 1
        self.target.follow(self.updates, every=config.target_every, tau=config.tau)
        chosen = chosen.detach()
        metrics = {**self._metrics(chosen, target, number(loss.detach()), norm), **more}
        if config.prioritised is None or weights is None:
            return Update(metrics)
        metrics["train/weight_mean"] = Mean(number(weights.mean()))
        return Update(metrics, priorities_of(error, action_values.counts, config.prioritised.eta))

    def targets(self, batch: Fragment, action_values: ActionValues) -> Tensor:
        """What the values should be; with `rescale`, both are squeezed, and added to rewards as what they stand for."""
        columns = tuple(column[self.behind] for column in (batch.reward, batch.terminated, batch.truncated))
        if action_values.chosen.ndim > 2:
            columns = tuple(column.unsqueeze(-1) if column.ndim == 2 else column for column in columns)
        reward, terminated, truncated = columns
        config, gamma = self.settings, self._gamma(batch)
        if isinstance(gamma, Tensor):
            gamma = gamma[self.behind]
        following = restored(action_values.following) if config.rescale else action_values.following
        target = n_step(reward, following, terminated, truncated, gamma=gamma, steps=config.n_step)
        return rescaled(target) if config.rescale else target

    def _prepared(self, batch: Fragment) -> Fragment:
        """What is learned from, where it is not what was stored."""
        return batch

    def _gamma(self, batch: Fragment) -> float | Tensor:
        """The discount, of all rows or row by row."""
        return self.settings.gamma

    def _beside(self, batch: Fragment, learner: Learner) -> tuple[Tensor | None, dict[str, Metric]]:
        """A loss beside that of the values, and what there is to tell of it."""
        return None, {}

    def _descent(
        self, loss: Tensor, batch: Fragment, action_values: ActionValues, slope: Callable[[], Tensor]
    ) -> Tensor | Differentiable:
        """What there is to step along: the loss, or, where values came without a graph, what knows its gradient by `slope`."""
        return loss

    def _metrics(self, chosen: Tensor, target: Tensor, loss: float, norm: float) -> dict[str, Metric]:
        return {
            "train/loss": Mean(loss),
            "train/td_error": Mean(number((chosen - target).abs().mean())),
            "train/q_mean": Mean(number(chosen.mean())),
            "train/target_mean": Mean(number(target.mean())),
            "train/grad_norm": Mean(norm),
            "train/epsilon": Last(number(self.epsilon)),
            "train/learning_rate": Last(self.optimiser.lr),
        }

    # ------------------------------------------------------------ settings

    def reconfigure(self, changes: dict[str, Any]) -> dict[str, Any]:
        """As `Algorithm.reconfigure` says. The policy's epsilon is a buffer: a new one reaches the actors with the next version.

        Rates of a ladder belong to the lanes of actors, and so they cannot change, nor can one take the place of the other.
        """
        settings = reconfigured(self.settings, changes, self._fixed())
        if isinstance(settings.epsilon, Ladder) and "epsilon" in changes:
            raise InputError(
                f"algorithm.epsilon = {changes['epsilon']!r} cannot be changed in this run, whose lanes have no rates of their "
                "own: give a number or a schedule, or start a new run with it"
            )
        check_schedules(settings, self.task.horizon)
        self._use(settings)
        if "epsilon" in changes:
            self.epsilon.fill_(self.rate(self._steps))
        return self._in_use()

    def _fixed(self) -> dict[str, str]:
        """Keys that may not change in this run, and what to do instead."""
        if isinstance(self.settings.epsilon, Ladder):
            return {"epsilon": "every lane has a rate of its own, which its actor holds; start a new run with it"}
        return {}

    def _use(self, settings: QLearningConfig) -> None:
        """From now on. Settings are read where they are used; what has them from elsewhere is told here."""
        self.settings = settings
        self.optimiser.lr, self.optimiser.max_grad_norm = self._now(settings.lr), settings.max_grad_norm

    def _in_use(self) -> dict[str, Any]:
        fixed = self._fixed()
        read = {"lr": self.optimiser.lr, "max_grad_norm": self.optimiser.max_grad_norm, "epsilon": float(self.epsilon)}
        live = live_settings(self.settings)
        return {key: read[key] if key in read else self._now(live[key]) for key in live if key not in fixed}

    def _now(self, setting: Any) -> Any:
        """A schedule's value at the last update."""
        return value_at(setting, self._steps, self.task.horizon)

    # ------------------------------------------------------------ state

    def flats(self) -> list[Flat]:
        return [*super().flats(), self.target.flat]

    def state_dict(self) -> dict[str, Tensor]:
        state = joined({"policy": self.policy, "target": self.target, "optimiser": self.optimiser})
        return {**state, "updates": torch.tensor(self.updates), **settings_state(self.settings, self._built)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.policy.load_state_dict(part(state, "policy."))
        self.target.load_state_dict(part(state, "target."))
        self.optimiser.load_state_dict(part(state, "optimiser."))
        self.updates = int(state["updates"])
        self._use(restored_settings(self._built, state))


def td_loss(chosen: Tensor, target: Tensor, kind: Literal["huber", "squared"], weights: Tensor | None = None) -> Tensor:
    """Mean over rows of what is made of the error, times the row's weight."""
    if weights is None:
        return functional.huber_loss(chosen, target) if kind == "huber" else 0.5 * functional.mse_loss(chosen, target)
    if kind == "huber":
        return (weights * functional.huber_loss(chosen, target, reduction="none")).mean()
    return 0.5 * (weights * functional.mse_loss(chosen, target, reduction="none")).mean()


def td_slope(error: Tensor, kind: Literal["huber", "squared"], weights: Tensor | None = None) -> Tensor:
    """The derivative of `td_loss` by `chosen`."""
    slope = error.clamp(-1.0, 1.0) if kind == "huber" else error
    return (slope if weights is None else weights * slope) / len(error)


def discrete_space(group: AgentGroup, name: str) -> Discrete:
    """The action space, if it is Discrete."""
    if not isinstance(group.action_space, Discrete):
        raise InputError(
            f"algorithm.name = '{name}' needs Discrete actions, not {group.action_space}: try ppo, or wrap the environment"
        )
    return group.action_space


def stored_extras(config: QLearningConfig) -> dict[str, tuple[int, ...]] | None:
    """What lanes store of a decision beside it."""
    return {"epsilon": ()} if isinstance(config.epsilon, Ladder) else None
