"""The options of `shoal parent` and `shoal child`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Recipe = Annotated[
    str, typer.Argument(metavar="RECIPE|FILE.yaml", help="A recipe (see `shoal list`) or your own file.")
]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings on top, e.g. algorithm.lr=1e-3.")
]
Certificates = Annotated[Path, typer.Option("--credentials", metavar="DIR", help="This end's folder of certificates.")]
Trial = Annotated[str | None, typer.Option(help="Name of this run; left out, one is made up.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with --trial.")]


def parent(
    recipe: Recipe,
    overrides: Overrides = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where children call.")] = None,
    children: Annotated[
        list[str] | None, typer.Option(metavar="wss://HOST:PORT ...", help="Children to call; may be given again.")
    ] = None,
    credentials: Certificates = Path("credentials"),
    trial: Trial = None,
    resume: Resume = False,
) -> None:
    """Mix what children on other networks learn, until a stop rule ends it."""
    from shoal.cli.federation import run_parent

    more = [word for word in overrides or [] if word.startswith("wss://")]
    settings = [word for word in overrides or [] if word not in more]
    options: dict[str, Any] = {"credentials": credentials, "listen": listen, "children": [*(children or []), *more]}
    run_parent(recipe, settings, trial=trial, resume=resume, **options)


def child(
    overrides: Overrides = None,
    parent: Annotated[str | None, typer.Option(metavar="wss://HOST:PORT", help="The parent to call.")] = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where a parent calls.")] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="RECIPE|FILE.yaml", help="Your copy of what the parent trains; left out, found by its name."
        ),
    ] = None,
    cores: Annotated[int, typer.Option(min=1, help="To train on: an actor and a trainer each.")] = 1,
    credentials: Certificates = Path("credentials"),
    seed: Annotated[
        int | None, typer.Option(help="Left out, it follows from the recipe's and the child's name.")
    ] = None,
    on: Annotated[str, typer.Option(help="Who runs the workers: local or inline.")] = "local",
    trial: Trial = None,
    resume: Resume = False,
) -> None:
    """Train here, and let a parent elsewhere mix it with what others learn."""
    from shoal.cli.federation import run_child

    options: dict[str, Any] = {
        "credentials": credentials,
        "cores": cores,
        "seed": seed,
        "on": on,
        "trial": trial,
        "resume": resume,
    }
    run_child(parent, listen, recipe, overrides or [], **options)
