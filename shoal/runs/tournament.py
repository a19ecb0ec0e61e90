"""A tournament between players of any runs: names in, ratings with intervals out. Games are played in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shoal.api.env import Array
from shoal.api.evaluation import SELF
from shoal.api.experiment import Experiment
from shoal.api.program import Program
from shoal.api.worker import Heartbeat
from shoal.base.descendants import no_new_children
from shoal.base.errors import InputError
from shoal.base.table import from_here
from shoal.envs.curriculum import make_staged
from shoal.evaluation.arena import Arena, Job, Manner
from shoal.evaluation.opponents import plies_of
from shoal.evaluation.sides import both_ways, opposed
from shoal.launchers.errand import Call, Errand, nothing
from shoal.launchers.links import Limits
from shoal.league.tournament import Tournament
from shoal.monitoring.run_folder import DEFAULT_ROOT, RunFolder
from shoal.program.expand import expand, find_opponents, parse_source

GAMES, MOST_GAMES = 100, 2000
"""Of each two, where nobody says how many: on average, and at most with `until_separated`."""
MOST_PLAYERS = 256


@dataclass(frozen=True)
class TournamentResult:
    """Who took part, and what came of it."""

    env: str
    players: list[str]
    tournament: Tournament
    repeated: bool
    """Two played one and the same game again and again: nothing was random."""


@from_here()
@no_new_children()
def play_tournament(
    players: list[str], *, games: int | None = None, until_separated: bool = False, stochastic: bool = False,
    openings: int | None = None, seed: int = 0, processes: int | None = None, tell: Callable[[str], None] | None = None,
) -> TournamentResult:  # fmt: skip
    """Let everyone meet everyone, in the environment of the first run among them.

    players          `RUN[:POLICY][@CHECKPOINT]`, `RUN:MEMBER` of a league, `random`, `file.py:function`
    games            of each two, on average; with `until_separated` at most
    until_separated  go on until the order of all ratings is known
    processes        at once; None: one for each core. What comes of it does not depend on their number
    """
    _check(players)
    experiment = _experiment(players)
    program = Errand("a look at the players", Limits.of(experiment), nothing).run(_prepare, experiment, players)
    most = games if games is not None else MOST_GAMES if until_separated else GAMES
    manner = Manner(both_ways(program), (stochastic,) * len(players), plies_of(program, openings))
    found = Tournament(len(players), batch=manner.batch, games=most, until_separated=until_separated, seed=seed)
    repeated = False
    while jobs := found.round():
        if tell is not None:
            tell(f"tournament: {found.played:,} games played, {sum(job.games for job in jobs):,} under way")
        for matches, same in play_jobs(program, manner, jobs, processes):
            found.add(matches)
            repeated |= same
    return TournamentResult(experiment.env.id, players, found, repeated)


def play_jobs(
    program: Program, manner: Manner, jobs: list[Job], processes: int | None = None
) -> list[tuple[Array, bool]]:  # fmt: skip
    """The matches of each job, in their order, and whether they were one and the same. Each process plays some of the jobs."""
    workers = min(processes or len(os.sched_getaffinity(0)), len(jobs))
    calls: list[Call] = [((program, manner, jobs[place::workers]), {}) for place in range(workers)]
    played = Errand("a game", Limits.of(program.experiment), nothing).run_all(_play, calls)
    return [played[number % workers][number // workers] for number in range(len(jobs))]


def document(result: TournamentResult) -> dict[str, Any]:
    """All of it as data, the strongest first."""
    found, ratings = result.tournament, result.tournament.ratings
    order = sorted(range(len(result.players)), key=lambda place: -ratings.points[place])
    points, games = found.payoffs.of(found.members)
    means, errors = (each(found.members, found.members) for each in (found.payoffs.means, found.payoffs.errors))

    def table(values: Array) -> list[list[float | None]]:
        return [[float(values[i, j]) if games[i, j] else None for j in order] for i in order]

    rows = [
        {
            "player": result.players[place], "rating": float(ratings.points[place]),
            "interval": ratings.interval(place), "points": float(points[place].sum() / max(games[place].sum(), 1.0)),
            "games": int(found.payoffs.played[place].sum()),
        }
        for place in order
    ]  # fmt: skip
    return {
        "env": result.env, "games": found.played, "players": rows, "payoffs": table(means), "errors": table(errors),
        "played": [[int(found.payoffs.played[i, j]) for j in order] for i in order],
        "open": [[result.players[one] for one in pair] for pair in found.open_pairs()],
    }  # fmt: skip


# ---------------------------------------------------------------- who takes part


def _check(players: list[str]) -> None:
    if not 2 <= len(players) <= MOST_PLAYERS:
        raise InputError(f"{len(players)} players: a tournament is between 2 and {MOST_PLAYERS}; name them")
    for name in players:
        if name in ("past", SELF):
            raise InputError(f"'{name}' is nobody in particular here: name a version, RUN@CHECKPOINT")
        if players.count(name) > 1:
            raise InputError(f"'{name}' is named {players.count(name)} times: nobody plays against itself here")


def _folder(name: str) -> RunFolder | None:
    """The run of a player, if it is one of a run."""
    run = parse_source(name)[0]
    there = any(Path(folder, run).is_dir() for folder in ("", DEFAULT_ROOT))
    return RunFolder.find(run) if there else None


def _experiment(players: list[str]) -> Experiment:
    """The settings of the first run; those of the others must name the same environment."""
    folders = {name: folder for name in players if (folder := _folder(name)) is not None}
    if not folders:
        raise InputError("none of the players is a run, so nobody says which environment to play in: name one")
    found = {name: Experiment.parse(folder.read_config()) for name, folder in folders.items()}
    first, *others = found.items()
    for name, other in others:
        if other.env.id != first[1].env.id:
            raise InputError(
                f"'{name}' was trained in {other.env.id} and '{first[0]}' in {first[1].env.id}: they cannot meet"
            )
    return first[1]


def _prepare(heartbeat: Heartbeat, experiment: Experiment, players: list[str]) -> Program:
    program = expand(experiment, against=[])
    roles = opposed(both_ways(program))
    return replace(program, opponents=find_opponents(program, players, roles))


def _play(heartbeat: Heartbeat, program: Program, manner: Manner, jobs: list[Job]) -> list[tuple[Array, bool]]:
    stage = max(len(program.experiment.curriculum) - 1, 0)
    with closing(make_staged(program.experiment, stage, manner.batch)) as env:
        env.between = heartbeat.between
        arena = Arena(program, env, manner)
        return [arena.play(job, heartbeat.beat) for job in jobs]
