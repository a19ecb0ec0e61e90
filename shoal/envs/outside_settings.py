"""Settings that all games outside have in common: how their processes are started, seeded, logged and replaced."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shoal.base.config import Config, Count, Duration

Positive = Annotated[Count, Field(ge=1)]


class RestartConfig(Config):
    """When a game is ended and started anew. Episodes that are open then are cut off (truncated)."""

    memory: Positive | None = None
    """Once it and its children take more than so many bytes; against leaks."""
    steps: Positive | None = None
    """After so many steps."""
    failures: Count = Field(3, ge=0)
    """So many crashes and hangs are put up with, counted anew after 10,000 good steps; one more ends the run."""


class OutsideConfig(Config):
    """Of any game outside."""

    seed: Count = Field(0, ge=0)
    """What the seeds of games are drawn from; games take a seed only when they start."""
    reseed: bool = False
    """Start games anew at every reset, with a seed drawn from that of the reset: equal seeds then give equal episodes."""
    areas: Positive | None = None
    """Copies (`env.num_envs`) that one game holds. Left out: see the page of the kind of game."""
    bins: Annotated[Count, Field(ge=2)] = 11
    """Where agents have numbers and choices: steps from -1 to 1 that each number may take."""
    log_folder: str | None = None
    """Keep what games print, in a file each. Left out: only the end is remembered, for errors."""
    log_limit: Positive = 10_000_000
    """Bytes of such a file, its older half included."""
    restart: RestartConfig = RestartConfig()
    """When a game is started anew."""
    start_timeout: Duration = 60.0
    """How long a game may take to start and show its first agents."""
    port: Annotated[Count, Field(ge=1, le=65535)] | None = None
    """Where the trainer listens, on loopback. Left out: any free port, and where the kind's editor looks for one."""
    args: list[str] = []
    """Further arguments for the game."""
