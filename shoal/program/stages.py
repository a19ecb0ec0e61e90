"""The stages of a curriculum: how the world is in each, and who builds it so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoal.api.env import Array, Env, Step
from shoal.api.experiment import EnvConfig, Experiment
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.rollout.rollout import Stages
from shoal.streams.primitives import Mailbox

STAGE = "stage"
"""The mailbox in which the controller says which one the run is in."""


def env_at(experiment: Experiment, stage: int) -> EnvConfig:
    """The world's settings in a stage."""
    if not experiment.curriculum:
        return experiment.env
    kwargs = {**experiment.env.kwargs, **experiment.curriculum[stage].kwargs}
    return experiment.env.model_copy(update={"kwargs": kwargs})


def make_staged(experiment: Experiment, stage: int, copies: int, *, first_slot: int = 0, render: bool = False) -> Env:
    """Worlds in a stage."""
    env = make_env(env_at(experiment, stage), copies, first_slot=first_slot, render=render)
    if experiment.curriculum:
        env.set_stage(stage)
    return env


def say_stage(mailbox: Mailbox, stage: int) -> None:
    """The run is in this stage from now on."""
    if stage > mailbox.latest():
        mailbox.publish(stage, np.zeros(1, np.uint8))


def check_stages(experiment: Experiment) -> None:
    """Every stage changes something, and leaves spaces as they are. Before anything is started."""
    spaces = None
    for number, stage in enumerate(experiment.curriculum):
        env = make_env(env_at(experiment, number), 1)
        try:
            told, groups = env.set_stage(number), env.groups
        finally:
            env.close()
        if number and not told and stage.kwargs == experiment.curriculum[number - 1].kwargs:
            raise InputError(
                f"curriculum: stage {number} changes nothing: give it other kwargs, or the world a method set_stage(number)"
            )
        if spaces is not None and groups != spaces:
            raise InputError(f"curriculum: stage {number} has other agents or spaces than the first: they must stay")
        spaces = groups


class StagedEnv(Env):
    """Worlds that can be put into another stage between two resets: the same to whoever plays in them."""

    def __init__(self, experiment: Experiment, copies: int, *, render: bool = False) -> None:
        self._experiment, self._render = experiment, render
        self._stage, self._env = 0, make_staged(experiment, 0, copies, render=render)
        self.groups, self.num_envs, self.game_return = self._env.groups, self._env.num_envs, self._env.game_return
        self.render_fps = self._env.render_fps

    def enter(self, stage: int) -> None:
        """Be in this stage."""
        if stage != self._stage:
            self._env.close()
            self._stage, self._env = stage, make_staged(self._experiment, stage, self.num_envs, render=self._render)

    def reset(self, seed: int) -> Step:
        self._env.wants_state, self._env.watched = self.wants_state, self.watched
        return self._env.reset(seed)

    def send(self, actions: dict[str, Array]) -> None:
        self._env.send(actions)

    def ready(self) -> bool:
        return self._env.ready()

    def recv(self, timeout: float) -> Step:
        return self._env.recv(timeout)

    def render(self, row: int) -> Array | None:
        return self._env.render(row)

    def close(self) -> None:
        self._env.close()


class MailboxStages(Stages):
    """As the controller says."""

    def __init__(self, experiment: Experiment, mailbox: Mailbox, build: Callable[[int], Env]) -> None:
        self._experiment, self._mailbox, self._build = experiment, mailbox, build
        self.stage = self.due

    @property
    def due(self) -> int:
        return max(0, self._mailbox.latest())

    def enter(self, stage: int, env: Env) -> Env:
        """Built anew, unless the settings are the same and the world only has to be told."""
        same = env_at(self._experiment, stage) == env_at(self._experiment, self.stage)
        self.stage = stage
        if same:
            env.set_stage(stage)
            return env
        env.close()
        return self._build(stage)
