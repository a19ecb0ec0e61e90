"""An experiment expanded: which policies there are, how they learn, how large everything is. Follows from the experiment alone."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.algorithms import ALGORITHMS
from shoal.api.algorithm import Algorithm, Task
from shoal.api.env import AgentGroup, Env
from shoal.api.experiment import Experiment
from shoal.api.policy import Policy
from shoal.base.arrays import Layout
from shoal.base.config import Config, Named
from shoal.base.errors import InputError
from shoal.base.flat import Flat
from shoal.base.seeding import Noise
from shoal.base.tree import tree_map
from shoal.envs import make_env
from shoal.models import resolved_model
from shoal.rollout.seat import Seat
from shoal.streams.inference import InlineInference
from shoal.streams.parameter import ParameterReader
from shoal.streams.primitives import Mailbox
from shoal.streams.sample import fragment_layout


@dataclass
class PolicyPlan:
    """One policy: whom it plays and how it learns."""

    name: str
    group: AgentGroup
    lanes: int
    mask_width: int | None
    algorithm: Algorithm

    def layout(self, actors: int) -> Layout:
        """What one slot of its sample stream holds: the lanes of one of `actors`."""
        lanes = self.lanes // actors
        return fragment_layout(self.group, self.algorithm.needs, self.algorithm.policy, lanes, self.mask_width)

    def copy_policy(self) -> tuple[Policy, Flat]:
        """A policy to act with, and the block that its versions are loaded into."""
        policy = copy.deepcopy(self.algorithm.policy)
        return policy, Flat(policy, gradients=False)


@dataclass
class Program:
    """What a launcher runs."""

    experiment: Experiment
    """With every setting resolved."""
    policies: dict[str, PolicyPlan] = field(default_factory=dict)

    @property
    def max_lag(self) -> int:
        """How many versions old experience may be."""
        lag = self.experiment.placement.max_lag
        assert lag is not None, "resolved by expand"
        return lag

    @property
    def actors(self) -> int:
        """Actor workers."""
        return self.experiment.placement.actors

    @property
    def envs_per_actor(self) -> int:
        """Env copies of each."""
        return self.experiment.env.num_envs // self.actors

    @property
    def slots(self) -> int:
        """Slots per ring: the credits that enforce `max_lag`."""
        return self.max_lag + 1


def expand(experiment: Experiment) -> Program:
    """Build what the experiment names and fill in what it leaves open."""
    actors, copies = experiment.placement.actors, experiment.env.num_envs
    if copies % actors:
        raise InputError(
            f"placement.actors = {actors} cannot share env.num_envs = {copies}: try {_nearest(copies, actors)}"
        )
    env = make_env(experiment.env, 1)
    try:
        groups, masks = env.groups, _mask_widths(env)
    finally:
        env.close()
    plans, algorithm, model = {}, Named(name=""), Named(name="")
    for name, group in groups.items():
        algorithm, model, built = _build(experiment, group)
        lanes = experiment.env.num_envs * len(group.agents)
        plans[name] = PolicyPlan(name, group, lanes, masks[name], built)
    lags = [plan.algorithm.needs.max_lag for plan in plans.values()]
    lag = experiment.placement.max_lag if experiment.placement.max_lag is not None else min(lags)
    placement = experiment.placement.model_copy(update={"max_lag": lag})
    resolved = experiment.model_copy(update={"algorithm": algorithm, "model": model, "placement": placement})
    return Program(resolved, plans)


def _nearest(copies: int, actors: int) -> int:
    return min((n for n in range(1, copies + 1) if copies % n == 0), key=lambda n: abs(n - actors))


def _mask_widths(env: Env) -> dict[str, int | None]:
    turns = env.reset(0).turns
    return {name: None if turn.action_mask is None else turn.action_mask.shape[-1] for name, turn in turns.items()}


def _build(experiment: Experiment, group: AgentGroup) -> tuple[Named, Named, Algorithm]:
    """The algorithm of one group, with its section and the model's as resolved."""
    section = experiment.algorithm
    cls = ALGORITHMS.load(section.name)
    if not (isinstance(cls, type) and issubclass(cls, Algorithm)):
        raise InputError(
            f"algorithm.name = '{section.name}' is no Algorithm: let the class inherit from shoal.api.algorithm.Algorithm"
        )
    config: Config = cls.Config.parse(section.rest, at="algorithm")
    model = Named.parse(resolved_model(experiment.model, group.observation_space), at="model")
    task = Task(group, experiment.env.num_envs * len(group.agents), experiment.seed, experiment.stop.steps)
    algorithm = Named(**{**config.model_dump(), "name": section.name})
    return algorithm, model, cls(config, model, task)


def evaluation_seats(program: Program, mailboxes: dict[str, Mailbox], env: Env) -> list[tuple[Seat, ParameterReader]]:
    """A greedy seat for every policy around `env`; its reader decides which version plays."""
    seats = []
    for name, plan in program.policies.items():
        policy, flat = plan.copy_policy()
        policy.eval()
        reader = ParameterReader(mailboxes[name], flat)
        lanes = env.num_envs * len(plan.group.agents)
        noise = Noise(program.experiment.seed, f"evaluation of {name}", np.arange(lanes), policy.noise_size)
        state = tree_map(lambda t: t.numpy(), policy.initial_state(lanes))
        seats.append((Seat(name, InlineInference(policy, reader, explore=False), noise, state), reader))
    return seats


def plan_of(program: Program) -> dict[str, Any]:
    """What would run, for people and scripts: workers, batch sizes, memory, every resolved setting."""
    policies: dict[str, dict[str, Any]] = {}
    for name, plan in program.policies.items():
        needs = plan.algorithm.needs
        policies[name] = {
            "agents": list(plan.group.agents),
            "observation_space": str(plan.group.observation_space),
            "action_space": str(plan.group.action_space),
            "parameters": plan.algorithm.flat.parameters.numel(),
            "lanes": plan.lanes,
            "rows_per_fragment": needs.burn_in + needs.unroll + needs.bootstrap,
            "batch": plan.lanes * needs.unroll,
            "bytes_per_version": plan.algorithm.flat.nbytes,
            "bytes_of_sample_ring": plan.layout(program.actors).nbytes * program.slots * program.actors,
        }
    workers = {"controller": 1, "actor": program.actors, "trainer": len(policies)}
    memory = sum(p["bytes_of_sample_ring"] + p["bytes_per_version"] * program.slots for p in policies.values())
    return {
        "workers": workers,
        "policies": policies,
        "memory_bytes": memory,
        "settings": program.experiment.model_dump(),
    }
