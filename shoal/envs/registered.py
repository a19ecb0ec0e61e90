"""Names that a program has registered with gymnasium, and no other process knows."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium

from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError
from shoal.base.table import name_elsewhere
from shoal.envs.factory import ATARI


def check_known(config: EnvConfig, on: str) -> None:
    """Refuse such a name, unless everything stays in this process: a probe chooses processes where they are faster."""
    if on == "inline" or ":" in config.id or config.id not in gymnasium.registry or config.id.startswith(ATARI):
        return
    if f'"{config.id}"' in Path(gymnasium.envs.__file__).read_text():  # gymnasium's own: importing it registers them
        return
    try:
        script = name_elsewhere(sys.modules["__main__"])
    except ValueError:  # a session has none
        script = "my_module"
    raise InputError(
        f"env.id = '{config.id}' is registered in this process alone, and worker processes would not know it: name the "
        f"module or file that registers it, as in '{script}:{config.id}', or pass the class itself, env=MyEnv"
    )
