"""How `shoal train` reads an option whose value may be omitted."""

from __future__ import annotations

from itertools import pairwise

from typer import Context
from typer.core import TyperCommand

OPTION = "--prometheus"


class TrainCommand(TyperCommand):
    """Takes `--prometheus` alone, or with a port behind it."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """A word that is no number does not belong to it."""
        return super().parse_args(ctx, with_value(args))


def with_value(args: list[str]) -> list[str]:
    """Where no port follows the option, an empty word does."""
    words = []
    for word, following in pairwise([*args, ""]):
        words += [word, ""] if word == OPTION and not following.lstrip("-").isdigit() else [word]
    return words
