"""A Worker is one job with a `poll()`: take, work, give, report. Who calls it, and in which process, is the launcher's affair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from shoal.api.env import Episode
from shoal.api.evaluation import Evaluation
from shoal.api.metric import Metric
from shoal.base.tree import Tree


@dataclass
class Report:
    """What one poll did. An idle poll reports nothing and is not an error."""

    worked: bool = False
    """False: nothing to do now; the launcher may let others run."""
    steps: int = 0
    """Environment steps taken."""
    rounds: dict[int, int] = field(default_factory=dict)
    """Of an actor, producer -> the round that it is in: of those before there is no more to tell."""
    episodes: list[Episode] = field(default_factory=list)
    policy: str = ""
    """Whose version, where there is one."""
    version: int | None = None
    """A trainer finished this version."""
    replica: int = 0
    """Which replica of the trainer speaks. What replicas in step say of a version is joined before anybody judges it."""
    trained_steps: int = 0
    """Environment steps behind that version: of all replicas in step, otherwise of this one."""
    metrics: dict[str, Metric] = field(default_factory=dict)
    state: bytes | None = None
    """A trainer's state as safetensors, when it was asked for."""
    contents: dict[str, bytes] = field(default_factory=dict)
    """Worker -> its `contents`, packed, when they were asked for; empty bytes: it has none."""
    asked: int = 0
    """The number of the question that they answer."""
    evaluating: int | None = None
    """The evaluation worker begins to judge this version."""
    evaluation: Evaluation | None = None
    """It has judged one."""


class Worker(ABC):
    """One job. No signals, no callbacks, no threads: everything it does happens inside `poll`."""

    name: str

    @abstractmethod
    def poll(self, timeout: float) -> Report:
        """Work on what is there, waiting at most `timeout` seconds for it."""

    def contents(self, version: int) -> Tree | None:
        """What a checkpoint of `version` keeps of it, beside what trainers hand in by themselves: arrays, numbers and words.

        None: nothing, it begins anew.
        """
        return None

    def close(self) -> None:
        """Free what the worker holds."""
        return


class Pulse:
    """Who is told that an actor is at its worlds, and that it is not: a supervisor sees from outside if it hangs there."""

    def begin(self, seconds: float) -> None:
        """The worlds are being made, which may take so long besides."""
        return

    def beat(self) -> None:
        """The worlds are stepped now."""
        return

    def rest(self) -> None:
        """They are left alone."""
        return
