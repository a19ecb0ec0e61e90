"""Judging a run that is on disk: its settings, one of its checkpoints, fresh greedy episodes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import torch

from shoal.api.evaluation import Scores
from shoal.api.experiment import Experiment
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed
from shoal.checkpoints.store import CheckpointStore, parse_which
from shoal.envs import make_env
from shoal.launchers.players import make_judge
from shoal.launchers.program import expand
from shoal.monitoring.run_folder import RunFolder
from shoal.rollout.evaluate import copies_for


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
    with closing(make_env(program.experiment.env, copies_for(episodes))) as env:
        evaluator = make_judge(program, env)(found)
        return evaluator.evaluate(episodes, seed=derive_seed(seed, "evaluation")), found.version
