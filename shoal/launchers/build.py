"""From a Program to its workers. Every launcher builds them here; they differ in who polls them and over which transport."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.base.seeding import Noise, derive_seed
from shoal.base.tree import tree_map
from shoal.checkpoints.store import Checkpoint
from shoal.envs import make_env
from shoal.launchers.program import PolicyPlan, Program
from shoal.rollout.rollout import Rollout
from shoal.rollout.seat import Seat
from shoal.rollout.trajectory import TrajectoryBuilder
from shoal.streams.inference import InlineInference
from shoal.streams.parameter import ParameterReader
from shoal.streams.primitives import Mailbox, Ring
from shoal.streams.sample import SampleReader, SampleWriter
from shoal.workers.actor import ActorWorker
from shoal.workers.trainer import TrainerWorker


def build_trainer(
    program: Program, policy: str, rings: list[Ring], mailbox: Mailbox, start: Checkpoint | None
) -> TrainerWorker:
    """The trainer of one policy, its first version published. `rings`: one per actor, in their order."""
    trainer = TrainerWorker(policy, program.policies[policy].algorithm, SampleReader(rings), mailbox)
    if start is not None:
        trainer.restore(start.tensors, policy, start.version, start.meta["steps"])
    trainer.start()
    return trainer


class Life(NamedTuple):
    """Which life of an actor this is."""

    version: int = 0
    """Where the run started."""
    incarnation: int = 0
    """How often the actor died since."""


def build_actor(
    program: Program, index: int, rings: dict[str, Ring], mailboxes: dict[str, Mailbox], life: Life
) -> ActorWorker:
    """Actor `index` with its share of the env copies. `rings`, `mailboxes`: by policy."""
    experiment = program.experiment
    copies = program.envs_per_actor
    env = make_env(experiment.env, copies, first_slot=index * copies)
    seats = [_seat(program, plan, index, rings[name], mailboxes[name], life) for name, plan in program.policies.items()]
    rollout = Rollout(env, seats, seed=derive_seed(experiment.seed, "env", life.incarnation, life.version))
    return ActorWorker(f"actor-{index}", rollout)


def _seat(program: Program, plan: PolicyPlan, index: int, ring: Ring, mailbox: Mailbox, life: Life) -> Seat:
    """A later life goes on at the round that its predecessor left open, with randomness that was not used yet."""
    needs = plan.algorithm.needs
    policy, flat = plan.copy_policy()
    client = InlineInference(policy, ParameterReader(mailbox, flat, max_lag=program.max_lag, start=life.version))
    count = plan.lanes // program.actors
    lanes = np.arange(index * count, (index + 1) * count)
    noise = Noise(program.experiment.seed, f"actions of {plan.name}", lanes, policy.noise_size)
    state = tree_map(lambda t: t.numpy(), policy.initial_state(count))
    round_ = life.version + ring.posted
    writer = SampleWriter(ring, producer=index, incarnation=life.incarnation, posted=round_)
    builder = TrajectoryBuilder(needs, lanes, writer)
    return Seat(plan.name, client, noise, state, builder, decisions=(round_ + life.incarnation) * needs.unroll)
