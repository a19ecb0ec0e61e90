"""One Env and the seats around it, advanced step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shoal.api.env import Env, Episode, Step
from shoal.base.errors import ShoalError
from shoal.rollout.seat import Seat


@dataclass
class Progress:
    """What some steps brought."""

    steps: int = 0
    posted: int = 0
    episodes: list[Episode] = field(default_factory=list)


class Rollout:
    """Plays on and on: ask every seat, step the world, show every seat what came of it."""

    def __init__(self, env: Env, seats: list[Seat], *, seed: int, timeout: float = 60.0) -> None:
        self._env, self._seats, self._timeout = env, seats, timeout
        step = env.reset(seed)
        for seat in seats:
            seat.start(step.turns[seat.group])

    def advance(self, progress: Progress, timeout: float = 0.0) -> bool:
        """One step of every env copy; False: a seat waits for a free slot or for its version."""
        for seat in self._seats:
            if not seat.ready(timeout):
                return False
        for seat in self._seats:
            seat.ask()
        self._env.send({seat.group: self._actions(seat) for seat in self._seats})
        step = self._env.recv(self._timeout)
        self._show(step, progress)
        return True

    def close(self) -> None:
        """Close the world."""
        self._env.close()

    def _actions(self, seat: Seat) -> np.ndarray:
        answer = seat.client.answer(self._timeout)
        if answer is None:
            raise ShoalError(f"no decision for group '{seat.group}' within {self._timeout:.0f} s")
        action = seat.take(answer)
        return action.reshape(self._env.num_envs, -1, *action.shape[1:])

    def _show(self, step: Step, progress: Progress) -> None:
        for seat in self._seats:
            progress.posted += seat.see(step.turns[seat.group], step.advanced)
        progress.steps += step.advanced
        progress.episodes += step.episodes
