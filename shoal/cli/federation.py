"""`shoal parent` and `shoal child`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.base.duration import format_duration
from shoal.base.errors import EXIT_FAILED, EXIT_INTERRUPTED, InputError
from shoal.base.files import as_typed, check_name
from shoal.base.importing import importing
from shoal.cli.output import command, tell
from shoal.recipes import find, names

if TYPE_CHECKING:
    from shoal.runs.outcome import Outcome


def run_parent(
    recipe: str, overrides: list[str], *, credentials: Path, listen: str | None, children: list[str], trial: str | None,
    resume: bool,
) -> None:  # fmt: skip
    """Check the words before loading the heavy half of the system, then mix."""
    path = find(recipe)
    if trial is not None:
        check_name("--trial", trial)
    with importing():
        from shoal.federation import start
    where = start.Where(trial, resume=resume)
    _say(start.parent(path, overrides, credentials=credentials, listen=listen, children=children, where=where))


def run_child(
    uri: str | None, listen: str | None, recipe: str | None, overrides: list[str], *, credentials: Path, cores: int,
    seed: int | None, on: str, trial: str | None, resume: bool,
) -> None:  # fmt: skip
    """The same, of a child."""
    path = find(recipe) if recipe is not None else None
    if trial is not None:
        check_name("--trial", trial)
    with importing():
        from shoal.federation import start
    where = start.Where(trial, resume=resume)
    options: dict[str, Any] = {"credentials": credentials, "cores": cores, "seed": seed, "on": on, "where": where}
    _say(start.child(uri, listen, path, overrides, find=_of_this_release, **options))


def _of_this_release(recipe: str) -> Path:
    """What a parent names is looked for among the recipes that came with this release; a file is only the user's to name."""
    if recipe not in names():
        raise InputError(
            f"the parent trains '{recipe}', which is no recipe of this release: give your copy with --recipe FILE.yaml"
        )
    return find(recipe)


def _say(outcome: Outcome) -> None:
    folder = as_typed(outcome.folder)
    tell(
        f"{outcome.reason} after {outcome.steps:,} steps, version {outcome.version:,}, {format_duration(outcome.seconds)}",
        f"results: {folder}    evaluate: {command()} evaluate {folder}",
    )
    if outcome.interrupted:
        sys.exit(EXIT_INTERRUPTED)
    from shoal.federation.uplink import REFUSED

    if outcome.reason.startswith(REFUSED):
        sys.exit(EXIT_FAILED)
