"""`shoal league`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.cli.output import print_json, tell
from shoal.cli.payoff_table import WIDEST, payoff_lines


def run(run: str, *, json: bool, plot: Path | None = None) -> None:
    """Read the journal, print where everyone stands; draw it, if that is wanted."""
    from shoal.analysis.league_table import league_of

    if plot is not None:
        from shoal.analysis.figure import check_format, require_matplotlib

        require_matplotlib("shoal league --plot")
        check_format(plot, "--plot")
    found = league_of(run)
    if plot is not None:
        from shoal.analysis.league_figure import save_payoffs

        save_payoffs(found, plot)
    if json:
        print_json(found)
        return
    names = [row["member"] for row in found["members"]]
    tell(*_members(found), "", *payoff_lines(names, found["payoffs"]))


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
