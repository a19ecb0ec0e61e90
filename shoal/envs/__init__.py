"""Environments: adapters that turn other people's environments into an `Env`, and toy environments with known answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.api.env import Env
    from shoal.api.experiment import EnvConfig


def make_env(config: EnvConfig, num_envs: int, *, first_slot: int = 0, render: bool = False) -> Env:
    """Build `num_envs` copies of the configured environment.

    `first_slot` is the run-wide number of the first copy: what a copy lives through follows from the seed and its own
    number, not from how copies are split over actors. `render`: build them so that they can be rendered.
    """
    from shoal.envs.factory import build_env

    return build_env(config, num_envs, first_slot=first_slot, render=render)
