"""What a checkpoint holds beside what trainers have learnt, and whether a run can use it.

Where bits are to be equal: how every rollout began the round that follows, and the older versions which that round acts with. By
choice: what is kept for replay. All of it fits only a program that is laid out as the one that saved it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from shoal.base.tree import Tree
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.contents import from_tensors, to_bytes, to_tensors
from shoal.program.program import PolicyPlan, Program
from shoal.streams.primitives import Mailbox

BEFORE = "versions"
"""Under this name go older versions, as if a worker held them."""


CONTENTS = "contents"
"""The mailbox in which the controller asks for contents."""
SMALL_REPLAY = 256 << 20
"""Bytes up to which what is kept for replay is saved unasked."""


def saves_replay(program: Program, plan: PolicyPlan) -> bool:
    """Checkpoints hold what the policy keeps for replay."""
    asked = program.experiment.checkpoint.replay
    return plan.sequences > 0 and (plan.replay_nbytes <= SMALL_REPLAY if asked is None else asked)


def saves_contents(program: Program) -> bool:
    """Checkpoints hold more than what trainers have learnt. Not of replicas, which wait for each other within updates."""
    replays = any(saves_replay(program, plan) for plan in program.policies.values())
    return program.trainers == 1 and (program.exact or replays)


def layout_of(program: Program) -> dict[str, Any]:
    """What must be equal for contents to fit; plain, to be compared with what a checkpoint says."""
    experiment, placement = program.experiment, program.experiment.placement
    env = experiment.env.model_dump(exclude={"timeout", "background", "game_return"})
    return {
        "env": env, "deal": experiment.deal, "actors": program.actors, "ring": placement.ring,
        "trainers": program.trainers, "buffers": program.buffers, "max_lag": program.max_lag,
        "policies": {name: plan.sequences for name, plan in program.policies.items()},
        "seed": experiment.seed,
    }  # fmt: skip


def fits(program: Program, start: Checkpoint) -> bool:
    """The checkpoint's contents are those of a program like this one."""
    return bool(start.meta.get("layout") == layout_of(program))


def is_whole(program: Program, start: Checkpoint) -> bool:
    """All rollouts can go on where they were, to the bit."""
    return program.exact and fits(program, start) and bool(start.meta.get("rollouts"))


def has_replay(program: Program, start: Checkpoint) -> bool:
    """What was kept for replay is there."""
    return fits(program, start) and bool(start.meta.get("replay"))


def older_versions(program: Program, mailboxes: dict[str, Mailbox], version: int) -> bytes:
    """Those that rounds from `version` on act with."""
    found: dict[str, Tree] = {}
    for name, mailbox in mailboxes.items():
        for older in range(max(0, version - program.max_lag), version):
            block = np.empty(program.policies[name].algorithm.flat.nbytes, np.uint8)
            if mailbox.read(older, block):
                found.setdefault(name, {})[str(older)] = block
    return to_bytes(found)


def versions_before(start: Checkpoint, policy: str) -> dict[int, np.ndarray]:
    """Version -> parameters, oldest first."""
    found = contents_of(start, BEFORE) or {}
    return {int(version): block for version, block in found.get(policy, {}).items()}


def contents_of(start: Checkpoint, worker: str) -> Tree | None:
    """What the checkpoint holds of a worker, if anything."""
    return from_tensors(start.extra(_file(worker))) if worker in start.meta.get("contents", ()) else None


def files_of(contents: dict[str, bytes]) -> dict[str, dict[str, Tensor]]:
    """The checkpoint's files, of all that workers handed in."""
    return {_file(worker): to_tensors(sent) for worker, sent in contents.items() if sent}


def about(program: Program, contents: dict[str, bytes]) -> dict[str, Any]:
    """For the checkpoint's `meta`: what is in it, and whom it fits."""
    actors = [sent for worker, sent in contents.items() if worker.startswith("actor-")]
    others = [sent for worker, sent in contents.items() if worker.startswith(("trainer-", "buffer-"))]
    return {
        "layout": layout_of(program), "contents": sorted(worker for worker, sent in contents.items() if sent),
        "rollouts": bool(actors) and all(actors), "replay": any(others),
    }  # fmt: skip


def _file(worker: str) -> str:
    return f"{worker}.safetensors"
