"""What the person at the terminal sees of a league: how strong players are, whom they met, what they forgot."""

from __future__ import annotations

import re

from shoal.monitoring.sinks import Row

PREFIX = "league/"
_RATING = re.compile(r"league/(?:([^/]+)/)?rating")
_MOST = 6
"""Opponents that are named."""


def league_text(row: Row) -> str:
    """`rating 34 (+- 12), met main 62 %, live 38 %; 8 members, 12,345 matches`, from the newest numbers of a league."""
    players = []
    for name, rating in row.items():
        if (found := _RATING.fullmatch(name)) is None:
            continue
        at = name.removesuffix("rating")
        text = f"{found[1] or 'rating'} {rating:.0f}"
        if (error := row.get(f"{at}rating_error")) is not None:
            text += f" (+- {error:.0f})"
        met = sorted(((n, s) for n, s in row.items() if n.startswith(f"{at}share/")), key=lambda each: -float(each[1]))
        if met:
            shares = [f"{opponent.removeprefix(f'{at}share/')} {100 * share:.0f} %" for opponent, share in met[:_MOST]]
            text += f", met {', '.join(shares)}"
        players.append(text)
    return f"{'; '.join(players)}; {row['league/members']:,.0f} members, {row['league/matches']:,.0f} matches"


def forgotten_text(row: Row) -> str:
    """The alarm, if there is one."""
    count = int(row.get("league/forgotten", 0))
    return f"forgets {count} of its past members" if count else ""
