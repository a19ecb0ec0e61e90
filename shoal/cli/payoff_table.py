"""What players earn against each other, as lines for a terminal."""

from __future__ import annotations

WIDEST = 12
"""Players in the table: a terminal is not wider."""


def payoff_lines(names: list[str], payoffs: list[list[float | None]]) -> list[str]:
    """Rows earn so much from columns; the strongest come first, and the weakest are missing where there are many."""
    left, names = len(names) - len(names[:WIDEST]), names[:WIDEST]
    width = max(6, *map(len, names))
    lines = [f"what each earns on average against the others{f' (without the {left} weakest)' if left else ''}"]
    lines.append(" " * width + "".join(f"  {name:>{width}}" for name in names))
    for name, earned in zip(names, payoffs, strict=False):
        cells = ["-" if value is None else f"{value:.2f}" for value in earned[: len(names)]]
        lines.append(f"{name:<{width}}" + "".join(f"  {cell:>{width}}" for cell in cells))
    return lines
