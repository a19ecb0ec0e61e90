"""Evaluating a run that is on disk: its settings, one of its checkpoints, fresh greedy episodes, against whom one likes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from shoal.api.evaluation import Scores
from shoal.api.experiment import Experiment
from shoal.api.program import Program
from shoal.base.descendants import no_new_children
from shoal.base.errors import InputError
from shoal.base.files import as_typed
from shoal.base.seeding import derive_seed
from shoal.base.table import from_here
from shoal.checkpoints.checkpoint import Checkpoint, stage_of
from shoal.checkpoints.store import CheckpointStore, parse_which
from shoal.checkpoints.worker_state import state_of
from shoal.evaluation.episodes import copies_for
from shoal.evaluation.evaluator import Evaluator, Watch
from shoal.evaluation.matches import Matches
from shoal.evaluation.opponents import MOST_PAST, Past, joined, plies_of, spread
from shoal.evaluation.seating import load_versions, make_evaluator, make_matches
from shoal.monitoring.run_folder import RunFolder
from shoal.program.expand import default_opponents, expand
from shoal.rollout.plans import Plans, load_policy
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
    past: Past
    """Earlier versions, where they are opponents."""


def load_run(
    run: str, *, overrides: list[str] | None = None, checkpoint: str = "latest", root: Path | str = "runs",
    against: list[str] | None = None,
) -> Loaded:  # fmt: skip
    """A run, ready to be played. `overrides`: another environment. `against`: opponents; None: see `default_opponents`."""
    torch.set_num_threads(1)
    folder = RunFolder(RunFolder.find(run, Path(root)).path.absolute())  # an environment may go to another folder
    experiment = Experiment.parse(folder.read_config(overrides))
    store = CheckpointStore(folder.checkpoints, keep=experiment.checkpoint.keep)
    found = store.load(parse_which(checkpoint, store.versions(), store.tags()))
    for version, damage, _ in found.skipped:
        raise InputError(
            f"checkpoint {version} of {as_typed(folder.path)} is damaged ({damage}): try --checkpoint {found.version}"
        )
    names = default_opponents(experiment) if against is None else against
    program = expand(experiment, against=names)
    past = find_past(program, store, found) if "past" in names else {}
    if "past" in names and not past:
        if against is not None:
            raise InputError(f"against = 'past': {folder.path} holds no version before {found.version}")
        program = replace(program, opponents=tuple(one for one in program.opponents if one.name != "past"))
    plans = Plans(program)
    return Loaded(folder, program, plans, load_versions(plans, found), found.version, stage_of(found), past)


def find_past(program: Program, store: CheckpointStore, found: Checkpoint) -> Past:
    """Versions before a checkpoint: those that it holds as opponents of training, else those of earlier checkpoints."""
    kept: dict[str, dict[int, np.ndarray]] = {}
    for name, spec in program.policies.items():
        if (past := spec.config.past) is not None:
            archives = (state_of(found, f"trainer-{past.of}-0") or {}).get("archives", {})
            versions = {int(number) * past.every: block for number, block in archives.get(name, {}).items()}
            kept.setdefault(past.of, {}).update({v: b for v, b in versions.items() if v < found.version})
    if kept and all(kept.values()):
        return joined(kept)
    plans, earlier = Plans(program), [version for version in store.versions() if version < found.version]
    return {version: _blocks(plans, store.load(version)) for version in spread(earlier, MOST_PAST)}


def _blocks(plans: Plans, found: Checkpoint) -> dict[str, np.ndarray]:
    for name, plan in plans.items():
        load_policy(plan.algorithm, found.tensors, name)
    return {name: plan.algorithm.flat.block.numpy().copy() for name, plan in plans.items()}


def seat_run(loaded: Loaded, episodes: int, watch: Watch, openings: int | None) -> Evaluator | Matches:
    """A run in environments of its own, against its opponents or as in training."""
    program, plans, mailboxes, plies = (
        loaded.program,
        loaded.plans,
        loaded.mailboxes,
        plies_of(loaded.program, openings),
    )
    if not program.opponents:
        return make_evaluator(program, plans, mailboxes, episodes, watch, stage=loaded.stage, plies=plies)
    return make_matches(program, plans, mailboxes, episodes, watch, stage=loaded.stage, plies=plies, past=loaded.past)


@from_here()
@no_new_children()
def evaluate(
    run: str,
    *,
    overrides: list[str] | None = None,
    episodes: int = 100,
    seed: int = 0,
    checkpoint: str = "latest",
    root: Path | str = "runs",
    against: list[str] | None = None,
    openings: int | None = None,
    stochastic: bool = False,
    tell: Callable[[str], None] | None = None,
) -> tuple[Scores, int]:
    """Scores of `episodes` greedy episodes, and the version that played them. `overrides`: another environment.

    against      opponents, each met in `episodes` games: `random`, `past`, `self`, `RUN[:POLICY][@TAG]` or `file.py:function`; left
                 out: those of `evaluation.against`, in self-play `random` and `past`, else everyone plays as in training
    openings     steps at the beginning of each episode in which everyone acts at random
    stochastic   act as in training, not greedily
    tell         hears how far it is
    """
    loaded = load_run(run, overrides=overrides, checkpoint=checkpoint, root=root, against=against)
    copies = copies_for(episodes, loaded.program.experiment.env)
    watch = Watch(derive_seed(seed, "rollout"), copies, explore=stochastic, thoughts=False)
    with closing(seat_run(loaded, episodes, watch, openings)) as evaluator:
        return evaluator.evaluate(episodes, seed=derive_seed(seed, "evaluation"), tell=tell), loaded.version
