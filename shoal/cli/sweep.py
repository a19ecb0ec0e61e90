"""`shoal sweep`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from shoal.base.errors import EXIT_FAILED, EXIT_INTERRUPTED
from shoal.base.files import as_typed
from shoal.base.importing import importing
from shoal.cli.output import command, tell
from shoal.cli.where import cluster_of, where_words
from shoal.recipes import find


def run(
    recipe: str, words: list[str], *, seeds: int | None, name: str | None, parallel: int | None, resume: bool, on: str,
    cluster: dict[str, Any],
) -> None:  # fmt: skip
    """Train every combination, then show them together."""
    where = cluster_of(on, cluster)
    path = find(recipe)
    with importing():
        from shoal.base.config import load_layers
        from shoal.launchers.forkserver import preload, warm
        from shoal.population.start import Options, sweep
        from shoal.population.sweep import split_words

        if where is None:
            preload("shoal.population.slot")
            warm()
    plain, grid = split_words(words)
    values = load_layers(path, plain)
    section: dict[str, Any] = dict(values.get("sweep") or {})
    on_top = {**({"grid": grid} if grid else {}), **({"seeds": seeds} if seeds else {})}
    values["sweep"] = {**section, **on_top}
    name = name or (path.stem if section else f"{path.stem}-sweep")
    extended = [f"sweep.seeds={seeds}"] if seeds else []
    ended = sweep(values, [*plain, *extended], Options(name, parallel=parallel, resume=resume, cluster=where))
    folder = as_typed(ended.folder)
    tell(f"{ended.reason}: {folder}")
    _report(ended.folder)
    if ended.interrupted or ended.reason.startswith(("stopped", "budget")):
        tell(f"go on:   {command()} sweep {recipe} --name {name}{where_words(on, cluster)} --resume")
    if ended.interrupted:
        sys.exit(EXIT_INTERRUPTED)
    if any(member.state == "failed" for member in ended.state.members.values()):
        sys.exit(EXIT_FAILED)


def _report(folder: Path) -> None:
    """One table, one figure."""
    from shoal.analysis.sweep import report, write_figure

    document = report(folder)
    if document is None:
        return
    from rich.console import Console

    from shoal.cli.compare import show

    show(document, Console(highlight=False))
    tell("", *map(_chance, document["improvement"]))
    tell(*write_figure(folder))


def _chance(record: dict[str, Any]) -> str:
    low, high = record["low"], record["high"]
    between = "" if low is None or high is None else f" ({low:.0%} to {high:.0%})"
    return f"{record['better']} is better than {record['than']} with probability {record['probability']:.0%}{between}"
