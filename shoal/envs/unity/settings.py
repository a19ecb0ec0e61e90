"""The settings of a Unity environment: `env.kwargs` where `env.id` begins with `unity:`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from shoal.base.config import Count
from shoal.envs.outside_settings import OutsideConfig, Positive

EDITOR_PORT = 5004
"""Where the Unity editor looks for its trainer."""


class UnityConfig(OutsideConfig):
    """How builds are started and read."""

    no_graphics: bool = True
    """Start without a graphics device. Builds whose agents see through cameras need false, and a display."""
    display: Literal["none", "xvfb", "inherit"] = "none"
    """Where a build with graphics draws: `xvfb`, a virtual screen of its own, or the screen of `DISPLAY`."""
    width: Positive | None = None
    """Pixels of the window; with `height`."""
    height: Positive | None = None
    """Pixels of the window; with `width`."""
    quality_level: Annotated[Count, Field(ge=0)] | None = None
    """Which of the build's quality levels to draw with."""
    time_scale: float = Field(20.0, gt=0)
    """How much faster than real time the game runs, where it can."""
    capture_frame_rate: Count = Field(60, ge=0)
    """Frames per second of the game's own time; 0: as the clock says, which does not repeat itself."""
    parameters: dict[str, float | list[float]] = {}
    """Environment parameters of the game; a list has one value for each stage of a curriculum."""
    num_areas: Positive = 1
    """Training areas that a build should put up, where its scene has a replicator."""
    areas: Positive | None = None
    """Copies (`env.num_envs`) that one build holds. Left out: `num_areas`, or where one behaviour has no teams, its agents."""
    agents: dict[str, Positive] = {}
    """Behaviour -> agents that may live at once in one copy. Left out: as many as were seen at the start."""
    look: Positive = 10
    """Steps of a first look at a build, in which behaviours and agents are counted."""
    masks: bool | None = None
    """Whether actions are masked. Left out: as the first look shows."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.width is None) != (self.height is None):
            raise ValueError("width and height go together: give both or none")
        if not self.no_graphics and self.display == "none":
            raise ValueError("no_graphics = false needs a screen: set display to xvfb or inherit")
        return self

    def parameters_in(self, stage: int) -> dict[str, float]:
        """What the game is told in a stage; behind the end of a list its last value."""
        return {
            name: float(value[min(stage, len(value) - 1)] if isinstance(value, list) else value)
            for name, value in self.parameters.items()
            if value != []
        }

    @property
    def staged(self) -> bool:
        """Some parameter has a value for each stage."""
        return any(isinstance(value, list) for value in self.parameters.values())
