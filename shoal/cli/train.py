"""`shoal train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.base.duration import format_duration
from shoal.base.errors import EXIT_INTERRUPTED, InputError
from shoal.base.files import as_typed, check_name
from shoal.base.importing import importing
from shoal.cli.output import command, tell
from shoal.cli.where import check_cluster, where_words
from shoal.recipes import find

if TYPE_CHECKING:
    from shoal.runs.outcome import Outcome


def run(
    recipe: str,
    overrides: list[str],
    *,
    trial: str | None,
    seed: int | None,
    on: str,
    resume: bool,
    parallel: int | None,
    cluster: dict[str, Any],
) -> None:
    """Check the words before loading the heavy half of the system, then train."""
    check_cluster(on, cluster)
    path = find(recipe)
    if trial is not None:
        check_name("--trial", trial)
    if seed is not None:
        overrides = [*overrides, f"seed={seed}"]
    begun = None
    if cluster["detach"] and on != "ray":
        from shoal.cli.detach import leave

        begun = leave(Path("runs"))
    with importing():
        from shoal.api.experiment import load_experiment

        experiment = load_experiment(path, overrides)
        if experiment.sweep is not None:
            raise InputError(f"{recipe} is many runs: train them with shoal sweep {recipe}, or one with sweep=null")
        if parallel is not None and experiment.population is None:
            raise InputError("--parallel is for a population: this is one run")
        if on == "local":
            from shoal.launchers.forkserver import warm

            warm()
        from shoal.runs import train

    if experiment.population is not None:
        from shoal.cli.population import run as train_population

        options = {"parallel": parallel, "resume": resume, "on": on, "trial": trial, "cluster": cluster}
        train_population(recipe, path, experiment, overrides, **options)  # type: ignore[arg-type]
        return
    if resume and trial is None:
        raise InputError("--resume needs --trial: which run should go on?")
    if resume:
        assert trial is not None
        outcome = train.resume(
            experiment.name, trial, overrides=overrides, on=on, cluster=train.Cluster(**cluster), begun=begun
        )
    else:
        outcome = train.train(experiment, trial=trial, on=on, cluster=train.Cluster(**cluster), begun=begun)
    if cluster["detach"] and on == "ray":
        folder = as_typed(outcome.folder)
        tell(f"left to the cluster: {folder}    stay with it: {command()} attach {folder}")
        return
    _say(outcome, recipe + where_words(on, cluster))


def attach(run: str, address: str | None) -> None:
    """Show a run of a cluster until it ends."""
    from shoal.launchers.ray.cluster import require_ray

    require_ray()
    from shoal.runs.outcome import Cluster
    from shoal.runs.ray import driver

    outcome = driver.attach(run, Cluster(address))
    _say(outcome, f"{as_typed(outcome.folder) / 'config.yaml'} --on ray --address {address or 'auto'}")


def _say(outcome: Outcome, recipe: str) -> None:
    folder = as_typed(outcome.folder)
    tell(
        f"{outcome.reason} after {outcome.steps:,} steps, {outcome.version:,} updates, {format_duration(outcome.seconds)}",
        f"results: {folder}    evaluate: {command()} evaluate {folder}",
    )
    if outcome.interrupted:
        tell(f"go on:   {command()} train {recipe} --trial {outcome.folder.name} --resume")
        sys.exit(EXIT_INTERRUPTED)
