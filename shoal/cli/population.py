"""`shoal train`, where the recipe has a population."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.base.duration import format_duration
from shoal.base.errors import EXIT_INTERRUPTED, InputError
from shoal.base.files import as_typed
from shoal.cli.output import command, tell
from shoal.cli.where import cluster_of, where_words

if TYPE_CHECKING:
    from shoal.api.experiment import Experiment


def run(
    recipe: str, path: Path, experiment: Experiment, overrides: list[str], *, parallel: int | None, resume: bool, on: str,
    trial: str | None, cluster: dict[str, Any],
) -> None:  # fmt: skip
    """Train all members, then say how they ended."""
    if trial is not None or cluster["detach"]:
        raise InputError("--trial and --detach are for one run: a population is called by its name, name=NAME")
    where = cluster_of(on, cluster)
    from shoal.base.config import load_layers
    from shoal.population.start import Options, population

    values = load_layers(path, overrides)
    ended = population(values, overrides, Options(experiment.name, parallel=parallel, resume=resume, cluster=where))
    folder, members = as_typed(ended.folder), ended.state.members.values()
    best = max((m for m in members if m.score is not None), key=lambda m: m.score.mean, default=None)  # type: ignore[union-attr]
    slots, swapped = sum(m.slot_seconds for m in members), sum(m.swap_seconds for m in members)
    tell(f"{ended.reason} after {ended.state.steps:,} steps, {format_duration(ended.seconds)}: {folder}")
    if best is not None and best.score is not None:
        tell(f"best: {best.name}, {best.score.mean:,.1f}    evaluate: {command()} evaluate {folder / best.name}")
    if slots:
        tell(
            f"swapping took {swapped / slots:.1%} of the time in slots    who copied whom: {command()} lineage {folder}"
        )
    if ended.interrupted:
        tell(f"go on:   {command()} train {recipe}{where_words(on, cluster)} --resume")
        sys.exit(EXIT_INTERRUPTED)
