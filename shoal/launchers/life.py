"""Where a launch begins, and what of its workers a checkpoint is to hold."""

from __future__ import annotations

import numpy as np

from shoal.api.program import Program
from shoal.base.tree import Tree
from shoal.checkpoints.checkpoint import Checkpoint, stage_of
from shoal.checkpoints.contents import to_bytes
from shoal.checkpoints.worker_state import fits, is_whole, saves_replay, state_of, steps_of, versions_of
from shoal.streams.primitives import Mailbox
from shoal.workers.context import Life
from shoal.workers.replica_sync import sync_class
from shoal.workers.trainer import TrainerSpec


def first_life(program: Program, start: Checkpoint | None) -> Life:
    """Where a launch begins. Replicas that go their own way share out the steps that are behind them."""
    starts = versions_of(program, start)
    if start is None:
        return Life(starts=starts)
    replicas = 1 if sync_class(program).in_step else program.trainers
    steps = {policy: count // replicas for policy, count in steps_of(program, start).items()}
    return Life(
        start.version, starts, start=start, steps=steps, whole=is_whole(program, start), stage=stage_of(start),
        pools=_pools(program, start),
    )  # fmt: skip


def _pools(program: Program, start: Checkpoint) -> dict[str, list[int]]:
    """Policy that plays as earlier versions -> their numbers, as the trainer that keeps them had them."""
    pools: dict[str, list[int]] = {}
    for spec in program.workers:
        if isinstance(spec, TrainerSpec) and spec.rank == 0 and fits(program, start):
            state = state_of(start, spec.name) or {}
            pools |= {name: sorted(map(int, kept)) for name, kept in state.get("archives", {}).items()}
    return pools


def saves_state(program: Program) -> bool:
    """Checkpoints hold more than what trainers have learnt."""
    replays = any(saves_replay(program, program.policies[name]) for name in program.learners)
    own = any(worker.target for worker in program.workers)
    pasts = any(spec.config.past is not None for spec in program.policies.values())
    return program.exact or replays or own or pasts or program.experiment.league is not None


def older_versions(program: Program, mailboxes: dict[str, Mailbox], versions: dict[str, int]) -> bytes:
    """Those that the rounds after `versions` act with."""
    found: dict[str, Tree] = {}
    for name, mailbox in mailboxes.items():
        for older in range(max(0, versions[name] - program.max_lag), versions[name]):
            block = np.empty(program.policies[name].facts.nbytes, np.uint8)
            if mailbox.read(older, block):
                found.setdefault(name, {})[str(older)] = block
    return to_bytes(found)
