"""Where the league of a run stands, read from its folder: live or years later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.api.experiment import Experiment
from shoal.api.league import LIVE, Member
from shoal.base.errors import InputError
from shoal.league.journal import Journal
from shoal.league.ratings import win_rate
from shoal.league.standings import Standings
from shoal.monitoring.run_folder import RunFolder


def league_of(run: str) -> dict[str, Any]:
    """Of a run that a person names."""
    folder = RunFolder.find(run)
    found = league_table(Experiment.parse(folder.read_config()), folder.path / "league")
    if found is None:
        raise InputError(f"{folder.name} has no league: add `league:` to its experiment")
    return {"run": folder.name, **found}


def league_table(experiment: Experiment, folder: Path) -> dict[str, Any] | None:
    """Members that may be met and players as they learn, the strongest first; what they earn against each other; the odds.

    None: it has no league. `folder`: where its journal lies.
    """
    if experiment.league is None:
        return None
    standings, odds = Standings(experiment.league, equal=not experiment.agents), dict[str, Any]()
    journal = Journal(folder)
    for decision in journal.decisions():
        standings.apply(decision)
        odds = decision["odds"] if decision["kind"] == "odds" else odds
    standings.payoffs.add(journal.matches())
    ratings, members = standings.ratings(), standings.rated()
    order = sorted(range(len(members)), key=lambda place: -ratings.points[place])
    rows = [
        {**_row(standings, members[place]), "rating": float(ratings.points[place]), "interval": ratings.interval(place)}
        for place in order
    ]
    ranked = [members[place] for place in order]
    earned, games = standings.payoffs.means(ranked, ranked), standings.payoffs.of(ranked)[1]
    payoffs = [
        [None if not games[row, column] else float(earned[row, column]) for column in range(len(ranked))]
        for row in range(len(ranked))
    ]
    return {"members": rows, "payoffs": payoffs, "odds": odds}


def _row(standings: Standings, member: Member) -> dict[str, Any]:
    """What is known of one, but its rating."""
    payoffs, place = standings.payoffs, standings.payoffs.place(member)
    points, games = float(payoffs.points[place].sum()), float(payoffs.games[place].sum())
    share, low, high = win_rate(points, 0.0, games - points)
    facts = standings.frozen.get(member)
    return {
        "member": standings.name(member), "role": standings.roles[member[0]], "learns": member[1] == LIVE,
        "games": int(payoffs.played[place].sum()), "win_rate": share, "win_rate_interval": (low, high),
        "steps": None if facts is None else facts.steps, "version": None if facts is None else facts.version,
    }  # fmt: skip
