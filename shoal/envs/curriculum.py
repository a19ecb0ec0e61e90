"""The stages of a curriculum: how the environment is in each, and who builds it so."""

from __future__ import annotations

from shoal.api.env import Env
from shoal.api.experiment import EnvConfig, Experiment
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.envs.wrappers.wrapper import EnvWrapper


def env_at(experiment: Experiment, stage: int) -> EnvConfig:
    """The environment's settings in a stage."""
    if not experiment.curriculum:
        return experiment.env
    kwargs = {**experiment.env.kwargs, **experiment.curriculum[stage].kwargs}
    return experiment.env.model_copy(update={"kwargs": kwargs})


def make_staged(experiment: Experiment, stage: int, copies: int, *, first_slot: int = 0, render: bool = False) -> Env:
    """Environments in a stage."""
    env = make_env(env_at(experiment, stage), copies, first_slot=first_slot, render=render)
    if experiment.curriculum:
        env.set_stage(stage)
    return env


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
                f"curriculum: stage {number} changes nothing: give it other kwargs, or the environment a method set_stage(number)"
            )
        if spaces is not None and groups != spaces:
            raise InputError(f"curriculum: stage {number} has other agents or spaces than the first: they must stay")
        spaces = groups


class StagedEnv(EnvWrapper):
    """Environments that can be put into another stage between two resets: the same to whoever plays in them."""

    def __init__(self, experiment: Experiment, copies: int, *, render: bool = False) -> None:
        super().__init__(make_staged(experiment, 0, copies, render=render))
        self._experiment, self._render, self._stage = experiment, render, 0

    def enter(self, stage: int) -> None:
        """Be in this stage."""
        if stage != self._stage:
            self._env.close()
            self._stage, self._env = stage, make_staged(self._experiment, stage, self.num_envs, render=self._render)
