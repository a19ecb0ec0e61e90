"""Evaluate before accepting: greedy episodes of a child's weights and of the parent's, on the same seeds; a step at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from shoal.api.federation import AcceptanceConfig
from shoal.api.program import Program
from shoal.base.seeding import derive_seed
from shoal.envs.curriculum import make_staged
from shoal.evaluation.episodes import EpisodeBatch, copies_for
from shoal.evaluation.seating import seat_everyone
from shoal.federation.codecs import Vector
from shoal.rollout.plans import Plans
from shoal.streams.primitives import Mailbox
from shoal.streams.transports.memory import MemoryMailbox
from shoal.workers.parent_link import Statistics, set_statistics, set_trained

STEPS_PER_POLL = 16
SEEDS = 10
"""Examinations after which other episodes are played: nobody can train for those, and a lucky score does not stay."""


def significantly_worse(candidate: list[float], present: list[float], sigmas: float) -> bool:
    """By Welch's standard error of the difference; where neither varies, any difference is one."""
    error = math.sqrt(np.var(candidate, ddof=1) / len(candidate) + np.var(present, ddof=1) / len(present))
    return float(np.mean(present) - np.mean(candidate)) > max(sigmas * error, 1e-9)


class Examiner:
    """Plays; `examine` begins, `step` goes on until there is a verdict."""

    def __init__(self, program: Program, policy: str, config: AcceptanceConfig, alive: Callable[[], None]) -> None:
        self._program, self._policy, self._config, self._alive = program, policy, config, alive
        self._plans = Plans(program)
        self._env = make_staged(program.experiment, 0, copies_for(config.episodes, program.experiment.env))
        nbytes = self._plans[policy].algorithm.flat.nbytes
        self._mailboxes: dict[str, Mailbox] = {policy: MemoryMailbox(nbytes, 1)}
        self._published = -1
        self._examinations = 0
        self._present: tuple[int, int, list[float]] | None = None
        """Version and seed that the present weights were scored at, and their returns."""
        self._queue: list[tuple[str, Vector, Statistics]] = []
        self._open: EpisodeBatch | None = None
        self._returns: dict[str, list[float]] = {}

    @property
    def busy(self) -> bool:
        """An examination is under way."""
        return bool(self._queue) or self._open is not None

    def examine(self, version: int, present: tuple[Vector, Statistics], candidate: tuple[Vector, Statistics]) -> None:
        """Score a candidate, and the present weights where that is not known for these seeds."""
        self._examinations += 1
        self._version, self._seed = version, self._examinations // SEEDS
        known = self._present is not None and self._present[:2] == (version, self._seed)
        self._queue = [("candidate", *candidate)] + ([] if known else [("present", *present)])
        self._returns = {"present": self._present[2]} if known and self._present is not None else {}

    def step(self) -> bool | None:
        """Whether the candidate is good enough; None: not known yet."""
        if self._open is None:
            who, vector, values = self._queue[0]
            self._open = self._begin(vector, values)
        for _ in range(STEPS_PER_POLL):
            self._open.step()
            self._alive()
            if self._open.over:
                break
        if not self._open.over:
            return None
        who, *_ = self._queue.pop(0)
        self._returns[who], self._open = list(self._open.scores().returns), None
        if self._queue:
            return None
        self._present = (self._version, self._seed, self._returns["present"])
        return not significantly_worse(self._returns["candidate"], self._returns["present"], self._config.sigmas)

    @property
    def score(self) -> float:
        """Mean return of the candidate that was examined last."""
        return float(np.mean(self._returns["candidate"]))

    def _begin(self, vector: Vector, values: Statistics) -> EpisodeBatch:
        algorithm = self._plans[self._policy].algorithm
        set_trained(algorithm, torch.from_numpy(vector))
        set_statistics(algorithm, values)
        self._published += 1
        self._mailboxes[self._policy].publish(self._published, algorithm.flat.block.numpy())
        players = seat_everyone(self._program, self._plans, self._mailboxes, self._env)
        seed = derive_seed(self._program.experiment.seed, "acceptance", counter=self._seed)
        return players.begin(self._config.episodes, seed=seed, timeout=self._program.experiment.env.timeout)

    def close(self) -> None:
        """Free the environments."""
        self._env.close()
