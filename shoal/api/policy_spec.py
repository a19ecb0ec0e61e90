"""A policy of a run: as data, and with the algorithm that was built for it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from gymnasium import Space

from shoal.api.algorithm import Algorithm, Task
from shoal.api.env import AgentGroup
from shoal.api.experiment import PolicyConfig
from shoal.api.sight import Sight
from shoal.api.space_data import space_from_plain, space_to_plain
from shoal.base.arithmetic import PLAIN, Arithmetic, compute_by
from shoal.base.config import Named
from shoal.base.flat import Flat
from shoal.base.plain import register

if TYPE_CHECKING:
    from shoal.api.policy import Policy


@dataclass(frozen=True)
class Source:
    """A policy of another run, as one of its checkpoints holds it, as a member of its league, or several of them mixed."""

    policy: PolicySpec
    checkpoints: str
    version: int
    """Of the checkpoint; of a member, its number."""
    member: str = ""
    """`main-3`: as the league has it; the checkpoints do not matter then."""
    mixture: tuple[tuple[float, Source], ...] = ()
    """Shares of those of whom one is drawn in each episode; the rest says what they have in common."""


@dataclass(frozen=True)
class Opponent:
    """Whom policies are evaluated against."""

    name: str
    """As it was asked for: `random`, `past`, `self`, another run, or a function."""
    sources: dict[str, Source] = field(default_factory=dict)
    """Of another run: policy of this run -> who plays in its place. Otherwise empty."""


@dataclass(frozen=True)
class PolicyFacts:
    """How large everything is that a policy which learns brings along."""

    parameters: int = 0
    parameter_nbytes: int = 0
    nbytes: int = 0
    """Of one version: parameters and buffers."""
    unroll: int = 0
    rows: int = 0
    """Of one fragment, with those that are only looked at."""
    max_lag: int = 0
    """As the algorithm would have it."""
    replays: bool = False
    sequences: int = 0
    """Kept for replay, over all replicas of the trainer."""
    replay_nbytes: int = 0
    drawn: int = 0
    """Sequences of one batch from replay, over all replicas of the trainer."""
    learner_nbytes: int = 0
    """Parameters, gradients, optimisers and targets, with the copy that an update is taken back by."""
    notes: tuple[str, ...] = ()
    """What the algorithm has to say of its settings."""


@dataclass(frozen=True)
class PolicySpec:
    """One policy: which agents it plays, and how it is built."""

    name: str
    config: PolicyConfig
    home: str
    """The group of its agents."""
    columns: tuple[int, ...]
    """Its agents' places in that group; where agents are dealt anew each episode: all places."""
    count: int
    """Agents that it plays at a time; 0: only in matches of a league."""
    group: AgentGroup
    """Its own agents, with their spaces; of a team, with those of all of them together."""
    lanes: int
    """Over all env copies of the run."""
    mask_width: int | None
    whole_group: bool
    """It has all places of its group."""
    algorithm: Named | None = None
    """As resolved, like the next; None: it does not learn."""
    model: Named | None = None
    task: Task | None = None
    source: Source | None = None
    """Where it begins, or what it plays as."""
    facts: PolicyFacts = PolicyFacts()
    members: tuple[str, ...] = ()
    """Of a rival in a league: the players whose members play in its seat."""

    @property
    def plays_as(self) -> str:
        """The policy whose versions it plays; its own name, where it plays nobody else's."""
        past = self.config.past
        return past.of if past is not None else self.members[0] if self.members else self.name

    @property
    def learns(self) -> bool:
        """It has a trainer."""
        return self.algorithm is not None


@dataclass(frozen=True)
class PolicyPlan:
    """A policy that learns, with the algorithm that was built for it: what only a process that works with it has."""

    spec: PolicySpec
    algorithm: Algorithm

    @property
    def name(self) -> str:
        """Of the policy."""
        return self.spec.name

    @property
    def sight(self) -> Sight:
        """How its observations are made up."""
        needs, policy = self.algorithm.needs, self.algorithm.policy
        agents = 0 if needs.lane == "env" else policy.agents  # a team knows its own
        task = self.spec.task
        assert task is not None, "it learns"
        return Sight(self.spec.group.observation_space, agents, task.state_space if needs.global_state else None)

    @property
    def stored_group(self) -> AgentGroup:
        """Its agents, with the observations that a fragment holds."""
        return replace(self.spec.group, observation_space=self.sight.stored)

    def copy_policy(
        self, device: torch.device = torch.device("cpu"), arithmetic: Arithmetic = PLAIN
    ) -> tuple[Policy, Flat]:
        """A policy to act with, and the block that its versions are loaded into."""
        policy = copy.deepcopy(self.algorithm.policy)
        compute_by(policy, arithmetic)
        flat = Flat(policy, gradients=False)
        flat.to(device)
        return policy, flat


register("space", Space, space_to_plain, space_from_plain)
