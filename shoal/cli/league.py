"""`shoal league`."""

from __future__ import annotations

from typing import Any

from shoal.cli.output import print_json, tell

WIDEST = 12
"""Members in the table of what they earn: a terminal is not wider."""


def run(run: str, *, json: bool) -> None:
    """Read the journal, print where everyone stands."""
    from shoal.analysis.league_table import league_of

    found = league_of(run)
    if json:
        print_json(found)
        return
    tell(*_members(found), "", *_payoffs(found))


def _members(found: dict[str, Any]) -> list[str]:
    width = max(len(row["member"]) for row in found["members"])
    lines = [
        f"{'member':<{width}}  {'role':<16}  {'rating':>6}  {'95 %':>13}  {'points':>6}  {'games':>9}  frozen after"
    ]
    for row in found["members"]:
        low, high = row["interval"]
        since = "it learns" if row["learns"] else f"{row['steps']:,} steps"
        lines.append(
            f"{row['member']:<{width}}  {row['role']:<16}  {row['rating']:>6.0f}  {low:>5.0f} .. {high:>4.0f}  "
            f"{row['win_rate']:>6.2f}  {row['games']:>9,}  {since}"
        )
    for player, odds in found["odds"].items():
        most = sorted(odds.items(), key=lambda item: -item[1])[:WIDEST]
        lines.append(f"{player} meets {', '.join(f'{name} {share:.2f}' for name, share in most)}")
    return lines


def _payoffs(found: dict[str, Any]) -> list[str]:
    """Rows earn so much from columns."""
    names = [row["member"] for row in found["members"]][:WIDEST]
    width = max(6, *map(len, names))
    left = len(found["members"]) - len(names)
    lines = [f"what each earns on average against the others{f' (without the {left} weakest)' if left else ''}"]
    lines.append(" " * width + "".join(f"  {name:>{width}}" for name in names))
    for name, earned in zip(names, found["payoffs"], strict=False):
        cells = ["-" if value is None else f"{value:.2f}" for value in earned[: len(names)]]
        lines.append(f"{name:<{width}}" + "".join(f"  {cell:>{width}}" for cell in cells))
    return lines
