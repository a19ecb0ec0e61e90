"""A league: its settings, and a match as a record of fixed width."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from shoal.base.config import Config, Count, Named, as_named

LIVE = -1
"""The number of a player as it learns; members, which do not, are counted from 0."""

Member = tuple[int, int]
"""A player's place among the players, and the number of one of its members, or LIVE."""

MATCH = np.dtype(
    [
        ("asker", "u1"), ("opponent", "u1"), ("side", "u1"), ("measured", "u1"),
        ("own", "<i4"), ("member", "<i4"),
        ("round", "<u4"), ("steps", "<u4"), ("slot", "<u4"), ("episode", "<u4"),
        ("earned", "<f4"), ("against", "<f4"),
    ]
)  # fmt: skip
"""One match, or one opponent's part of it where there are several: who asked for it and whom it met (places among the players), the
place of the asker's first agent, whether the league manager played it to measure; numbers of members, or LIVE; the asker's round,
the length, and where in the run it was played, from which its seed follows; what the asker and the opponent earned, each on average
over its agents."""


class FreezeConfig(Config):
    """When a player joins the league as it is."""

    steps: Count = Field(100_000, ge=1)
    """Environment steps from one member to the next."""
    win_rate: float | None = Field(None, gt=0, lt=1)
    """Earlier, once it earns this share of the points against everyone that it meets. Left out: by steps alone."""


class LeagueConfig(Config):
    """Many players in one run: whom they meet, and when they join as they are."""

    players: dict[str, Literal["main", "main_exploiter", "league_exploiter"]] = Field({"main": "main"}, min_length=1)
    """The policies that learn, and the role of each."""
    match: Annotated[Named, BeforeValidator(as_named)] = Named(name="pfsp")
    """Who meets whom: `latest`, `uniform`, `pfsp` or `psro`, with its settings."""
    freeze: FreezeConfig = FreezeConfig()
    """When a player joins the league as it is; its first version always does."""
    keep: Count = Field(20, ge=2)
    """Members of each player that may be met, at most: beyond that the one leaves that is met least."""
    games: Count = Field(40, ge=0)
    """Games that each two members play against each other beside training, so that they can be rated. 0: none."""
