"""The settings of a Godot environment: `env.kwargs` where `env.id` begins with `godot:`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shoal.envs.outside_settings import OutsideConfig, Positive

EDITOR_PORT = 11008
"""Where a game that is played in the editor looks for its trainer."""


class GodotConfig(OutsideConfig):
    """How games are started and read."""

    show_window: bool = False
    """Open the game's window; otherwise it runs headless."""
    speedup: float | None = Field(None, gt=0)
    """How much faster than real time the game runs. Left out: as its scene says."""
    action_repeat: Positive | None = None
    """Physics steps per decision. Left out: as its scene says."""
    framerate: Positive | None = None
    """Frames per second of the game's own time. Left out: as the clock says."""
    done: Literal["terminated", "truncated"] = "terminated"
    """What the end of an episode means, of which the game says only that it is done: `truncated` where only its time was up."""
