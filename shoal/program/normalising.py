"""`env.wrappers: [normalise]`, carried out by the policies: running statistics are buffers of theirs, which trainers update."""

from __future__ import annotations

from shoal.algorithms import ALGORITHMS
from shoal.api.experiment import EnvConfig
from shoal.base.config import Named
from shoal.base.errors import InputError
from shoal.envs.wrappers import NORMALISE, normalises
from shoal.envs.wrappers.values import KEY
from shoal.rollout.plans import algorithm_class

SETTING = "normalise_observations"


def with_normaliser(env: EnvConfig, section: Named, at: str) -> Named:
    """The settings of an algorithm, with that of the wrapper if it is listed. Who has both has it once."""
    if not normalises(env):
        return section
    if SETTING not in algorithm_class(section, at).Config.model_fields:
        able = [name for name in ALGORITHMS.entries if SETTING in ALGORITHMS.load(name).Config.model_fields]
        raise InputError(
            f"{KEY} = '{NORMALISE}': {at}.name = '{section.name}' keeps no statistics of observations; remove it, or choose "
            f"from: {', '.join(able)}"
        )
    if section.rest.get(SETTING) is False:
        raise InputError(f"{at}.{SETTING} = false: {KEY} lists '{NORMALISE}', which sets it; remove one of the two")
    return Named(**{**section.model_dump(), SETTING: True})
