"""Shoal: distributed multi-agent reinforcement learning. `shoal.train(shoal.Experiment(env="CartPole-v1"))`.

Names load on first use, so that `import shoal` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.api.callback import Callback, CheckpointEvent, EvaluationEvent, UpdateEvent
    from shoal.api.evaluation import Scores
    from shoal.api.experiment import Experiment
    from shoal.base.errors import InputError, ShoalError
    from shoal.evaluation.player import Player
    from shoal.runs.evaluate import evaluate
    from shoal.runs.load import LoadedPolicy, LoadedRun, load
    from shoal.runs.outcome import Outcome
    from shoal.runs.train import resume, train

__version__ = "0.2.0"
__all__ = [
    "Callback", "CheckpointEvent", "EvaluationEvent", "Experiment", "InputError", "LoadedPolicy", "LoadedRun", "Outcome",
    "Player", "Scores", "ShoalError", "UpdateEvent", "evaluate", "load", "resume", "train",
]  # fmt: skip

_HOMES = {
    "Callback": "shoal.api.callback",
    "CheckpointEvent": "shoal.api.callback",
    "EvaluationEvent": "shoal.api.callback",
    "Experiment": "shoal.api.experiment",
    "InputError": "shoal.base.errors",
    "LoadedPolicy": "shoal.runs.load",
    "LoadedRun": "shoal.runs.load",
    "Outcome": "shoal.runs.outcome",
    "Player": "shoal.evaluation.player",
    "Scores": "shoal.api.evaluation",
    "ShoalError": "shoal.base.errors",
    "UpdateEvent": "shoal.api.callback",
    "evaluate": "shoal.runs.evaluate",
    "load": "shoal.runs.load",
    "resume": "shoal.runs.train",
    "train": "shoal.runs.train",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'shoal' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
