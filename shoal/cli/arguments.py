"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Recipe = Annotated[
    str, typer.Argument(metavar="RECIPE|FILE.yaml", help="A recipe (see `shoal list`) or your own file.")
]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings on top, e.g. algorithm.lr=1e-3.")
]
Run = Annotated[
    str, typer.Argument(metavar="RUN", help="A run folder, EXPERIMENT/TRIAL, or EXPERIMENT for its newest trial.")
]
Address = Annotated[
    str | None, typer.Option(metavar="auto|HOST:PORT", help="With --on ray: the cluster; left out, a Ray of its own.")
]
WorkingDir = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="With --on ray: your code, for machines that do not share this folder."),
]
Runs = Annotated[
    list[str], typer.Argument(metavar="RUN...", help="Run folders, EXPERIMENT/TRIAL, or EXPERIMENT for all its trials.")
]
Openings = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, help="Let everyone act at random in the first N steps. Default: 2 with --against, else 0."
    ),
]
Stochastic = Annotated[bool, typer.Option("--stochastic", help="Act as in training, not greedily.")]
Wandb = Annotated[
    str | None,
    typer.Option(metavar="online|offline|disabled", help="Show it in Weights & Biases: log.wandb.mode, in a word."),
]
Device = Annotated[
    str | None, typer.Option(metavar="auto|cpu|cuda|...", help="Where trainers learn: placement.device, in a word.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

SETTINGS = {"wandb": "log.wandb.mode", "device": "placement.device"}
"""Option -> the setting that it stands for."""


def spelled(**shorthands: str | None) -> list[str]:
    """Options that stand for a setting, as overrides: those that were given."""
    return [f"{SETTINGS[name]}={value}" for name, value in shorthands.items() if value]
