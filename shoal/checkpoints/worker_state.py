"""What a checkpoint holds beside what trainers have learnt, and whether a run can use it.

Where bits are to be equal: how every rollout began the round that follows, and the older versions which that round acts with. By
choice: what is kept for replay. All of it fits only a program that is laid out as the one that saved it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from shoal.api.policy_spec import PolicySpec
from shoal.api.program import Program
from shoal.base.tree import Tree
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.contents import from_tensors, to_tensors

BEFORE = "versions"
"""Under this name go older versions, as if a worker held them."""
FORMAT = 3
"""Of what workers hold: a checkpoint of another has trainers' state alone for this release."""
SMALL_REPLAY = 256 << 20
"""Bytes up to which what is kept for replay is saved unasked."""


def saves_replay(program: Program, spec: PolicySpec) -> bool:
    """Checkpoints hold what the policy keeps for replay."""
    requested = program.experiment.checkpoint.replay
    return spec.facts.sequences > 0 and (spec.facts.replay_nbytes <= SMALL_REPLAY if requested is None else requested)


def layout_of(program: Program) -> dict[str, Any]:
    """What must be equal for the state of workers to fit; plain, to be compared with what a checkpoint says."""
    experiment, placement = program.experiment, program.experiment.placement
    env = experiment.env.model_dump(exclude={"timeout", "background", "game_return"})
    return {
        "env": env, "deal": experiment.deal, "actors": program.actors, "ring": placement.ring,
        "trainers": program.trainers, "buffers": program.buffers, "max_lag": program.max_lag,
        "policies": {name: program.policies[name].facts.sequences for name in program.learners},
        "seed": experiment.seed, "format": FORMAT,
    }  # fmt: skip


def fits(program: Program, start: Checkpoint) -> bool:
    """What the checkpoint holds of workers is that of a program like this one."""
    return bool(start.meta.get("layout") == layout_of(program))


def is_whole(program: Program, start: Checkpoint) -> bool:
    """All rollouts can go on where they were, to the bit."""
    return program.exact and fits(program, start) and bool(start.meta.get("rollouts"))


def has_replay(program: Program, start: Checkpoint) -> bool:
    """What was kept for replay is there."""
    return fits(program, start) and bool(start.meta.get("replay"))


def versions_before(start: Checkpoint, policy: str) -> dict[int, np.ndarray]:
    """Version -> parameters, oldest first, of those that the round after the checkpoint acts with."""
    found = state_of(start, BEFORE) or {}
    return {int(version): block for version, block in found.get(policy, {}).items()}


def versions_of(program: Program, start: Checkpoint | None) -> dict[str, int]:
    """Policy -> the version that a checkpoint holds of it."""
    if start is None:
        return dict.fromkeys(program.learners, 0)
    return {name: start.meta.get("versions", {}).get(name, start.version) for name in program.learners}


def steps_of(program: Program, start: Checkpoint | None) -> dict[str, int]:
    """Policy -> environment steps behind that version."""
    if start is None:
        return dict.fromkeys(program.learners, 0)
    return {name: start.meta.get("policy_steps", {}).get(name, start.meta["steps"]) for name in program.learners}


def state_of(start: Checkpoint, worker: str) -> Tree | None:
    """What the checkpoint holds of a worker, if anything."""
    return from_tensors(start.extra(file_of(worker))) if worker in start.meta.get("contents", ()) else None


def files_of(states: dict[str, bytes]) -> dict[str, dict[str, Tensor]]:
    """The checkpoint's files, of all that workers handed in."""
    return {file_of(worker): to_tensors(sent) for worker, sent in states.items() if sent}


def about(program: Program, states: dict[str, bytes]) -> dict[str, Any]:
    """For the checkpoint's `meta`: what is in it, and whom it fits."""
    by_content: dict[str, list[bytes]] = {}
    for worker in program.workers:
        by_content.setdefault(worker.keeps, []).append(states.get(worker.name, b""))
    rollouts = by_content.get("rollouts", [])
    return {
        "layout": layout_of(program), "contents": sorted(worker for worker, sent in states.items() if sent),
        "rollouts": bool(rollouts) and all(rollouts), "replay": any(by_content.get("replay", [])),
    }  # fmt: skip


def file_of(worker: str) -> str:
    """The checkpoint's file with the state of a worker."""
    return f"{worker}.safetensors"
