"""`shoal lineage`."""

from __future__ import annotations

from pathlib import Path

from shoal.base.errors import InputError
from shoal.base.files import as_typed
from shoal.cli.asking import population_of
from shoal.cli.output import command, print_json, tell


def run(run: str, *, replay: str | None, out: Path | None, json: bool) -> None:
    """Read the journal; print it, draw it, or write one branch of it as a recipe."""
    found = population_of(run)
    if found is None or found[1]:
        raise InputError(f"there is no population '{run}': give the folder of one, runs/NAME")
    folder = found[0]
    if replay is not None:
        from shoal.population.replay import write_replay

        path = out or Path(f"{folder.name}-{replay}.yaml")
        notes = write_replay(folder, replay, path)
        tell(*notes, f"{path}    train it: {command()} train {path}")
        return
    lines = folder.journal.read()
    if json:
        print_json(lines)
        return
    from shoal.analysis.figure import check_format, has_matplotlib
    from shoal.population.lineage import tree

    tell(*tree(lines))
    path = out or folder.path / "lineage.png"
    check_format(path)
    if has_matplotlib():
        from shoal.analysis.lineage_figure import draw_lineage

        draw_lineage(lines, folder.name, path)
        tell(f"figure: {as_typed(path)}")
