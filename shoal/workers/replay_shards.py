"""Replay, shared out: how much each buffer keeps, and the buffers themselves, whether in a trainer or in buffer workers."""

from __future__ import annotations

import math

from shoal.api.algorithm import Replay
from shoal.api.fragment import Fragment
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import Program
from shoal.base.seeding import derive_seed
from shoal.buffers.columns import HERE, replay_nbytes
from shoal.buffers.prioritised import PrioritisedReplay
from shoal.buffers.rate import Rate
from shoal.buffers.sequences import SequenceReplay
from shoal.buffers.stacks import Stack
from shoal.buffers.sum_tree import tree_nbytes
from shoal.buffers.uniform import UniformReplay
from shoal.streams.batch import lanes_of
from shoal.streams.sample import sample_layout


def replay_of(plan: PolicyPlan) -> Replay:
    """What an algorithm that replays needs."""
    replay = plan.algorithm.needs.replay
    assert replay is not None, "it replays"
    return replay


def shards_of(program: Program, plan: PolicyPlan) -> int:
    """Buffer workers of one policy."""
    return program.buffers if plan.algorithm.needs.replay is not None else 0


def shard_of(program: Program, producer: int) -> int:
    """Which buffer worker of each policy keeps what a producer makes: they are dealt out in turn."""
    return producer % program.buffers


def part_of(plan: PolicyPlan, shards: int, shard: int) -> Fragment:
    """An example of what comes from one shard for each batch."""
    sequences = replay_of(plan).sequences
    return lanes_of(example(plan), sequences // shards + (shard < sequences % shards))


def example(plan: PolicyPlan) -> Fragment:
    """A fragment of one lane, of zeros."""
    return Fragment(**sample_layout(plan, plan.spec.lanes).allocate()["fragment"])


def sequences_of(plan: PolicyPlan) -> int:
    """Kept for replay, over all replicas of the trainer; 0: none."""
    needs = plan.algorithm.needs
    return 0 if needs.replay is None else max(1, needs.replay.capacity // needs.unroll)


def nbytes_of(plan: PolicyPlan) -> int:
    """Bytes of all that is kept for replay, taken when the run starts."""
    sequences, replay = sequences_of(plan), plan.algorithm.needs.replay
    tree = 0 if replay is None or replay.priorities is None else tree_nbytes(sequences)
    return replay_nbytes(example(plan), sequences, _stack(plan)) + tree


def make_replay(
    program: Program, plan: PolicyPlan, slot: int, of: int, *, life: tuple[int, int] = (0, 0)
) -> SequenceReplay:
    """An empty buffer for a share of what is kept, by choice on the algorithm's device; `life`: of whoever holds it, so that each
    draws anew."""
    seed = derive_seed(program.experiment.seed, f"replay of {plan.name}", *life)
    sequences, priorities = max(1, sequences_of(plan) // of), replay_of(plan).priorities
    device = plan.algorithm.device if program.experiment.placement.replay_device == "trainer" else HERE
    if priorities is None:
        return UniformReplay(example(plan), sequences, seed=seed, slot=slot, stack=_stack(plan), device=device)
    return PrioritisedReplay(
        example(plan), sequences, priorities, seed=seed, slot=slot, stack=_stack(plan), device=device
    )


def make_rate(program: Program, plan: PolicyPlan) -> Rate:
    """Of one shard: it gets its share of the rows, and gives a part of every batch."""
    replay = replay_of(plan)
    rows = plan.spec.lanes * plan.algorithm.needs.unroll / program.buffers
    warmup = math.ceil(replay.warmup / program.buffers)
    return Rate(replay.updates / rows, warmup, program.experiment.placement.slack * rows)


def _stack(plan: PolicyPlan) -> Stack | None:
    """What replay may know of observations that are stacks of images; None: they are none."""
    images = plan.spec.group.stacked
    return Stack(images, plan.algorithm.needs.bootstrap) if images > 1 else None
