"""Judging a run that is on disk: its settings, one of its checkpoints, fresh greedy episodes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import torch

from shoal.api.experiment import Experiment
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed
from shoal.checkpoints.store import CheckpointStore, parse_which
from shoal.launchers.players import make_evaluator
from shoal.launchers.program import expand
from shoal.monitoring.run_folder import RunFolder
from shoal.rollout.evaluate import Scores
from shoal.streams.primitives import Mailbox
from shoal.streams.transports.memory import MemoryMailbox
from shoal.workers.trainer import load_policy


def evaluate(
    run: str,
    *,
    overrides: list[str] | None = None,
    episodes: int = 100,
    seed: int = 0,
    checkpoint: str = "latest",
    root: Path | str = "runs",
) -> tuple[Scores, int]:
    """Scores of `episodes` greedy episodes, and the version that played them. `overrides`: another world, other opponents."""
    torch.set_num_threads(1)
    folder = RunFolder.find(run, Path(root))
    experiment = Experiment.parse(folder.read_config(overrides))
    store = CheckpointStore(folder.checkpoints, keep=experiment.checkpoint.keep)
    found = store.load(parse_which(checkpoint, store.versions(), store.tags()))
    for version, damage in found.skipped:
        raise InputError(
            f"checkpoint {version} of {folder.path} is damaged ({damage}): try --checkpoint {found.version}"
        )
    program = expand(experiment)
    mailboxes: dict[str, Mailbox] = {}
    for name, plan in program.policies.items():
        load_policy(plan.algorithm, found.tensors, name)
        mailboxes[name] = MemoryMailbox(plan.algorithm.flat.nbytes, 1)
        mailboxes[name].publish(found.version, plan.algorithm.flat.block.numpy())
    with closing(make_evaluator(program, mailboxes, episodes)) as evaluator:
        return evaluator.evaluate(episodes, seed=derive_seed(seed, "evaluation")), found.version
