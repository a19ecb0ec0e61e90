"""What a Program has to know of an environment, found by opening one copy and closing it again."""

from __future__ import annotations

import copy
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from gymnasium import Space

from shoal.api.env import AgentGroup, Footprint
from shoal.api.experiment import Experiment
from shoal.base.errors import ShoalError, own_code
from shoal.envs import make_env
from shoal.envs.curriculum import env_at
from shoal.rollout.global_state import state_space_of
from shoal.rollout.seat import as_lanes
from shoal.rollout.trajectory import View


@dataclass(frozen=True)
class EnvFacts:
    """Data alone."""

    groups: dict[str, AgentGroup]
    mask_widths: dict[str, int | None]
    """Group -> actions that its mask has; None: it has none."""
    state_space: Space[Any]
    """What a central critic sees: the global state, or all that all agents see."""
    game_return: Literal["sum", "mean"]
    first: dict[str, View]
    """Group -> what its agents see after a reset, as lanes."""
    footprint: Footprint | None = None
    """What processes of the environment's own take, of one copy."""


def inspect_env(experiment: Experiment) -> EnvFacts:
    """Open one copy, reset it, close it."""
    with own_code(f"env.id = '{experiment.env.id}'", ShoalError), closing(make_env(env_at(experiment, 0), 1)) as env:
        first = env.reset(0)
        masks = {name: turn.action_mask for name, turn in first.turns.items()}
        widths = {name: None if mask is None else mask.shape[-1] for name, mask in masks.items()}
        seen = {name: copy.deepcopy(as_lanes(turn)) for name, turn in first.turns.items()}
        state = state_space_of(env.groups, first)
        return EnvFacts(env.groups, widths, state, env.game_return, seen, env.footprint())
