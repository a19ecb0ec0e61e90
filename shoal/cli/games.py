"""The commands in which players meet, and their options; the work of each is in a file of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli.arguments import Json, Openings, Overrides, Stochastic


def tournament(
    players: Annotated[
        list[str],
        typer.Argument(
            metavar="PLAYER...",
            help="RUN[:POLICY][@CHECKPOINT], RUN:MEMBER of a league, random or file.py:function; the first run says "
            "which environment they meet in.",
        ),
    ],
    games: Annotated[
        int | None,
        typer.Option(min=1, help="Of each two, on average: 100. With --until-separated at most: 2000."),
    ] = None,
    until_separated: Annotated[
        bool, typer.Option("--until-separated", help="Go on until it is known of all who is stronger, with 95 %.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of those games.")] = 0,
    openings: Openings = None,
    stochastic: Stochastic = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="At once; default: one for each core. Results do not depend on it.")
    ] = None,
    json: Json = False,
) -> None:
    """Let checkpoints of any runs play each other: ratings with intervals, and what they earn against each other."""
    from shoal.cli.tournament import run as work

    how = {"games": games, "until_separated": until_separated, "seed": seed, "processes": processes}
    work(players, json=json, openings=openings, stochastic=stochastic, **how)


def play(
    run: Annotated[str, typer.Argument(metavar="RUN", help="RUN[:POLICY][@CHECKPOINT], or RUN:MEMBER of a league.")],
    as_: Annotated[
        str | None, typer.Option("--as", metavar="AGENT", help="Whom you play; default: each in turn.")
    ] = None,
    games: Annotated[int | None, typer.Option(min=1, help="How many; default: until Ctrl-D.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of those games.")] = 0,
    stochastic: Stochastic = False,
) -> None:
    """Play a game against a trained policy, here in the terminal."""
    from shoal.cli.play import run as work

    work(run, agent=as_, games=games, seed=seed, stochastic=stochastic)


def exploit(
    player: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="RUN[:POLICY][@CHECKPOINT], RUN:MEMBER of a league, or RUN:mixture for all that its players meet.",
        ),
    ],
    overrides: Overrides = None,
    trial: Annotated[str | None, typer.Option(help="Name of the response's run; left out, one is made up.")] = None,
    on: Annotated[str, typer.Option(help="Who runs the workers, as for `train`.")] = "local",
    games: Annotated[int, typer.Option(min=2, help="To measure what it wins.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Of the response's run and of those games.")] = 0,
    json: Json = False,
) -> None:
    """Train a best response against a player, and print what it wins: a lower bound on exploitability."""
    from shoal.cli.exploit import run as work

    work(player, overrides=overrides or [], trial=trial, on=on, games=games, seed=seed, json=json)
