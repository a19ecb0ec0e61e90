"""`shoal tune`."""

from __future__ import annotations

import sys
from typing import Any

from shoal.base.errors import EXIT_INTERRUPTED
from shoal.base.files import as_typed
from shoal.base.importing import importing
from shoal.cli.output import command, tell
from shoal.cli.where import cluster_of, where_words
from shoal.recipes import find


def run(
    recipe: str, overrides: list[str], *, trials: int | None, name: str | None, parallel: int | None, resume: bool, on: str,
    cluster: dict[str, Any],
) -> None:  # fmt: skip
    """Search, then say what was found and where it is."""
    where = cluster_of(on, cluster)
    path = find(recipe)
    words = [*overrides, *([f"tune.trials={trials}"] if trials else [])]
    with importing():
        from shoal.base.config import load_layers
        from shoal.launchers.forkserver import preload, warm
        from shoal.population.start import Options, require_optuna, tune

        require_optuna()
        if where is None:
            preload("shoal.population.slot")
            warm()
    name = name or (path.stem if path.stem.endswith("-tune") else f"{path.stem}-tune")
    ended = tune(load_layers(path, words), words, Options(name, parallel=parallel, resume=resume, cluster=where))
    folder = as_typed(ended.folder)
    tell(f"{ended.reason}: {folder}")
    _report(name, str(folder))
    if ended.interrupted or ended.reason.startswith(("stopped", "budget")):
        tell(f"go on:   {command()} tune {recipe} --name {name}{where_words(on, cluster)} --resume")
    if ended.interrupted:
        sys.exit(EXIT_INTERRUPTED)


def _report(name: str, path: str) -> None:
    from shoal.analysis.figure import has_matplotlib
    from shoal.analysis.tuning import confirmed, saved_steps, write_best, write_figure
    from shoal.api.experiment import Experiment
    from shoal.population.folder import PopulationFolder
    from shoal.population.tune import rungs

    folder = PopulationFolder.find(path)
    assert folder is not None
    state = folder.state()
    steps, _ = rungs(Experiment.parse(folder.read_settings([])))
    tell(f"pruning saved {saved_steps(state, steps):.0%} of the steps of all trials")
    for record in confirmed(state):
        shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in record["values"].items()}
        values = ", ".join(f"{key} = {value}" for key, value in shown.items())
        interval = f" ({record['low']:,.1f} to {record['high']:,.1f})" if record["seeds"] > 1 else ""
        tell(f"{record['trial']}: {record['mean']:,.1f}{interval} on {record['seeds']} fresh seeds: {values}")
    if (best := write_best(folder)) is not None:
        tell(f"best: {as_typed(best)}    train it: {command()} train {as_typed(best)}")
    if has_matplotlib():
        tell(f"figure: {as_typed(write_figure(folder))}")
