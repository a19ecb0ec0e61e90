"""Replay in buffer workers: who keeps what, and the two ends of each shard."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

from shoal.api.algorithm import Replay
from shoal.api.experiment import PlacementConfig
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed
from shoal.buffers.prioritised import PrioritisedReplay
from shoal.buffers.rate import Rate
from shoal.buffers.sequences import SequenceReplay
from shoal.buffers.uniform import UniformReplay

if TYPE_CHECKING:
    from shoal.program.program import PolicyPlan, Program


def check_buffers(placement: PlacementConfig, asked: PlacementConfig, plans: Collection[PolicyPlan]) -> None:
    """Whether replay can be shared out as `placement` says, which follows from what was `asked`."""
    buffers = placement.buffers
    if not buffers:
        return
    said = f"placement.buffers = {buffers}"
    needs = [plan.algorithm.needs.replay for plan in plans if plan.algorithm.needs.replay is not None]
    if not needs:
        raise InputError(f"{said}: nothing is replayed here; leave it out")
    if placement.trainers != 1:
        raise InputError(f"{said} is for one trainer: leave placement.trainers out")
    if asked.exact or asked.max_lag == 0:
        raise InputError(
            f"{said}: who comes first decides what is drawn, so it is never exact; leave placement.exact and max_lag out"
        )
    if not isinstance(placement.actors, int):
        raise InputError(
            f"{said}: actors that come and go are for clusters, and buffer workers for one machine; leave it out"
        )
    if placement.actors * placement.ring % buffers:
        raise InputError(f"{said} cannot share placement.actors = {placement.actors}: try actors = {buffers}")
    if (fewest := min(replay.sequences for replay in needs)) < buffers:
        raise InputError(f"{said}: a batch has {fewest} sequences, and each buffer gives at least one; try {fewest}")


def shard_of(program: Program, producer: int) -> int:
    """Which buffer worker of each policy keeps what a producer makes: they are dealt out in turn."""
    return producer % program.buffers


def part_of(replay: Replay, shards: int, shard: int) -> int:
    """Sequences of a batch that come from one shard."""
    return replay.sequences // shards + (shard < replay.sequences % shards)


def make_replay(
    program: Program, plan: PolicyPlan, replay: Replay, slot: int, of: int, *, life: tuple[int, int] = (0, 0)
) -> SequenceReplay:
    """An empty buffer for a share of what is kept; `life`: of whoever holds it, so that each draws anew."""
    seed = derive_seed(program.experiment.seed, f"replay of {plan.name}", *life)
    example, sequences = plan.example(), max(1, plan.sequences // of)
    if replay.priorities is None:
        return UniformReplay(example, sequences, seed=seed, slot=slot, stack=plan.stack)
    return PrioritisedReplay(example, sequences, replay.priorities, seed=seed, slot=slot, stack=plan.stack)


def make_rate(program: Program, plan: PolicyPlan, replay: Replay) -> Rate:
    """Of one shard: it gets its share of the rows, and gives a part of every batch."""
    rows = plan.lanes * plan.algorithm.needs.unroll / program.buffers
    warmup = math.ceil(replay.warmup / program.buffers)
    return Rate(replay.updates / rows, warmup, program.experiment.placement.slack * rows)
