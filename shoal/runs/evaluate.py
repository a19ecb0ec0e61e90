"""Evaluating a run that is on disk: its settings, one of its checkpoints, fresh greedy episodes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch

from shoal.api.evaluation import Scores
from shoal.api.experiment import Experiment
from shoal.api.program import Program
from shoal.base.descendants import no_new_children
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed
from shoal.checkpoints.checkpoint import stage_of
from shoal.checkpoints.store import CheckpointStore, parse_which
from shoal.evaluation.seating import load_versions, make_evaluator
from shoal.monitoring.run_folder import RunFolder
from shoal.program.expand import expand
from shoal.rollout.plans import Plans
from shoal.streams.primitives import Mailbox


@dataclass(frozen=True)
class Loaded:
    """A run as one of its checkpoints left it."""

    folder: RunFolder
    program: Program
    plans: Plans
    mailboxes: dict[str, Mailbox]
    """Of every policy that learned, with its parameters."""
    version: int
    stage: int
    """Of its curriculum."""


def load_run(
    run: str, *, overrides: list[str] | None = None, checkpoint: str = "latest", root: Path | str = "runs"
) -> Loaded:
    """A run, ready to be played. `overrides`: another environment, other opponents."""
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
    plans = Plans(program)
    return Loaded(folder, program, plans, load_versions(plans, found), found.version, stage_of(found))


@no_new_children()
def evaluate(
    run: str,
    *,
    overrides: list[str] | None = None,
    episodes: int = 100,
    seed: int = 0,
    checkpoint: str = "latest",
    root: Path | str = "runs",
) -> tuple[Scores, int]:
    """Scores of `episodes` greedy episodes, and the version that played them. `overrides`: another environment, other opponents."""
    loaded = load_run(run, overrides=overrides, checkpoint=checkpoint, root=root)
    with closing(
        make_evaluator(loaded.program, loaded.plans, loaded.mailboxes, episodes, stage=loaded.stage)
    ) as evaluator:
        return evaluator.evaluate(episodes, seed=derive_seed(seed, "evaluation")), loaded.version
