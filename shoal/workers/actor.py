"""The actor worker.

Consumes decisions (of its inference clients) and parameter versions; produces fragments and episode records; waits for a free
slot or for the version of its round.
"""

from __future__ import annotations

from shoal.api.worker import Report, Worker
from shoal.rollout.rollout import Progress, Rollout

STEPS_PER_POLL = 64
"""Steps of the world between two looks at the rest of the process."""


class ActorWorker(Worker):
    """Advances one world until a fragment is posted."""

    def __init__(self, name: str, rollout: Rollout) -> None:
        self.name = name
        self._rollout = rollout

    def poll(self, timeout: float) -> Report:
        progress = Progress()
        for _ in range(STEPS_PER_POLL):
            if not self._rollout.advance(progress, timeout) or progress.posted:
                break
        return Report(worked=progress.steps > 0, steps=progress.steps, episodes=progress.episodes)

    def close(self) -> None:
        self._rollout.close()
