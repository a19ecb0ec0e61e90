"""`shoal tournament`."""

from __future__ import annotations

import sys
from typing import Any

from shoal.base.importing import importing
from shoal.cli.output import print_json, tell
from shoal.cli.payoff_table import payoff_lines


def run(players: list[str], *, json: bool, **options: Any) -> None:
    """Play, then print who is how strong."""
    with importing():
        from shoal.monitoring.terminal import waiting
        from shoal.runs.tournament import document, play_tournament

    with waiting(f"tournament of {len(players)} players") as say:
        result = play_tournament(players, tell=say, **options)
    if result.repeated:
        print(
            "shoal: warning: equal players played one game again and again, nothing is random: add --openings 4 or "
            "--stochastic",
            file=sys.stderr,
        )
    found = document(result)
    if json:
        print_json(found)
        return
    names = [row["player"] for row in found["players"]]
    width = max(6, *map(len, names))
    tell(*_ratings(found, width), "", *payoff_lines(names, found["payoffs"]), *_open(found["open"]))


def _ratings(found: dict[str, Any], width: int) -> list[str]:
    """A line per player."""
    lines = [f"{'player':<{width}}  {'rating':>6}  {'95 %':>13}  {'points':>6}  {'games':>7}"]
    for row in found["players"]:
        low, high = row["interval"]
        lines.append(
            f"{row['player']:<{width}}  {row['rating']:>6.0f}  {low:>5.0f} .. {high:>4.0f}  {row['points']:>6.2f}  "
            f"{row['games']:>7,}"
        )
    return lines


def _open(pairs: list[list[str]]) -> list[str]:
    if not pairs:
        return []
    return ["", f"not known who is stronger: {'; '.join(' or '.join(pair) for pair in pairs)}"]
