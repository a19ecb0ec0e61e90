"""A model with which the first life of a trainer hangs while it is made."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

from gymnasium import Space

from shoal.models.mlp import MLPConfig, MLPModel


class SlowStartConfig(MLPConfig):
    """As a setting: the variables of processes are those that the fork server was started with."""

    name: str = "slow start"  # type: ignore[assignment]
    told: str
    """The file in which the process tells its number."""


class SlowStart(MLPModel):
    """The process `trainer` hangs here in its first life, after it has told its number."""

    Config = SlowStartConfig  # type: ignore[assignment]

    def __init__(self, observation_space: Space[Any], config: SlowStartConfig) -> None:
        super().__init__(observation_space, config)
        told = Path(config.told)
        if multiprocessing.current_process().name == "trainer" and not told.exists():
            told.write_text(str(os.getpid()))
            time.sleep(600)
