"""The commands that make many runs of one experiment, and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.arguments import Address, WorkingDir, spelled

Recipe = Annotated[
    str, typer.Argument(metavar="RECIPE|FILE.yaml", help="A recipe (see `shoal list`) or your own file.")
]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="Its folder below runs/; left out, from the recipe.")]
Parallel = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Runs that are trained at once; left out, one per core, or as many as the cluster holds.",
    ),
]
On = Annotated[str, typer.Option(help="Where runs are trained: local (the cores of this machine) or ray (a cluster).")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the one of that name.")]
Wandb = Annotated[
    str | None,
    typer.Option(metavar="online|offline|disabled", help="Show the runs in Weights & Biases, as one group."),
]


def sweep(
    recipe: Recipe,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUES",
            help="Settings on top, e.g. stop.steps=10_000; those with commas are a grid: algorithm.lr=1e-3,3e-3.",
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, help="Seeds of each combination.")] = None,
    name: Name = None,
    parallel: Parallel = None,
    resume: Resume = False,
    on: On = "local",
    address: Address = None,
    working_dir: WorkingDir = None,
    wandb: Wandb = None,
) -> None:
    """Train every combination of a grid with several seeds; one table and one figure in the end."""
    from shoal.cli.sweep import run

    options = {"name": name, "parallel": parallel, "resume": resume, "on": on}
    cluster = {"address": address, "working_dir": working_dir, "detach": False}
    run(recipe, [*(words or []), *spelled(wandb=wandb)], seeds=seeds, **options, cluster=cluster)  # type: ignore[arg-type]


def lineage(
    run: Annotated[str, typer.Argument(metavar="POPULATION", help="Its name, or its folder.")],
    replay: Annotated[
        str | None, typer.Option(metavar="MEMBER", help="Write the settings that led to it as a recipe, over steps.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the figure goes, or the recipe; left out, lineage.png.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the journal as one JSON document.")] = False,
) -> None:
    """Show where the members of a population come from: who copied whom, why, and with which settings."""
    from shoal.cli.lineage import run as work

    work(run, replay=replay, out=out, json=json)


def tune(
    recipe: Recipe,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings on top, e.g. tune.sampler=random.")
    ] = None,
    trials: Annotated[int | None, typer.Option(metavar="N", min=1, help="Settings to try; tune.trials.")] = None,
    name: Name = None,
    parallel: Parallel = None,
    resume: Resume = False,
    on: On = "local",
    address: Address = None,
    working_dir: WorkingDir = None,
    wandb: Wandb = None,
) -> None:
    """Search for better settings in the space of the recipe's `tune`; the best, confirmed on fresh seeds, become best.yaml."""
    from shoal.cli.tune import run

    options = {"name": name, "parallel": parallel, "resume": resume, "on": on}
    cluster = {"address": address, "working_dir": working_dir, "detach": False}
    run(recipe, [*(overrides or []), *spelled(wandb=wandb)], trials=trials, **options, cluster=cluster)  # type: ignore[arg-type]
