"""The actor worker.

Consumes decisions (of its inference clients) and parameter versions; produces fragments and episode records; waits for a free
slot, for the version of its round, or for an answer.
"""

from __future__ import annotations

from shoal.api.worker import Pulse, Report, Worker
from shoal.base.faults import NO_FAULTS, Faults
from shoal.base.tree import Tree
from shoal.monitoring.shares import Shares
from shoal.rollout.rollout import Progress, Rollout
from shoal.streams.primitives import Waiter

STEPS_PER_POLL = 64
"""Steps of the world between two looks at the rest of the process."""
_STATES = {"slot": "waited_slot", "answer": "waited_input", "world": "worked"}


class ActorWorker(Worker):
    """A ring of rollouts that take turns: while one waits for its decision or its world, the others go on."""

    def __init__(
        self, name: str, rollouts: list[Rollout], shares: Shares, waiter: Waiter, *,
        pulse: Pulse | None = None, faults: Faults = NO_FAULTS,
    ) -> None:  # fmt: skip
        self.name = name
        self._rollouts, self._shares, self._waiter, self._faults = rollouts, shares, waiter, faults
        self._pulse = pulse or Pulse()
        self._waits = "waited_slot"
        self._steps = 0

    def poll(self, timeout: float) -> Report:
        progress = Progress()
        for _ in range(STEPS_PER_POLL):
            if not self._sweep(progress) and not self._wait(progress, timeout):
                break
            if progress.posted:
                break
        self._steps += progress.steps
        self._faults.at("step", self._steps)
        self._pulse.rest()
        self._shares.switch(self._waits)  # what passes until the next poll is no work of this worker's
        if not (progress.steps or progress.posted):  # a call in which all copies idle may end a round
            return Report()
        rounds = {rollout.producer: rollout.round for rollout in self._rollouts} if progress.posted else {}
        return Report(True, progress.steps, rounds, progress.episodes, metrics=self._shares.take())

    def _wait(self, progress: Progress, timeout: float) -> bool:
        return timeout > 0 and self._waiter.wait_until(lambda: self._sweep(progress), timeout)

    def _sweep(self, progress: Progress) -> bool:
        """Advance every rollout; False: all of them wait."""
        self._pulse.beat()
        self._shares.switch("worked")
        waits = [rollout.advance(progress) for rollout in self._rollouts]
        if None in waits:
            self._waits = "waited_slot"
            return True
        # a world that steps in the background is work; else an answer is nearer than a slot
        nearest = next(wait for wait in ("world", "answer", "slot") if wait in waits)
        self._waits = _STATES[nearest]
        self._shares.switch(self._waits)
        return False

    def contents(self, version: int) -> Tree | None:
        """Its rollouts, as they began the round that follows on `version`."""
        begun = tuple(rollout.beginning(version) for rollout in self._rollouts)
        return None if None in begun else begun

    def restore(self, contents: Tree) -> None:
        """Go on from `contents`."""
        for rollout, begun in zip(self._rollouts, contents, strict=True):
            rollout.restore(begun)

    def close(self) -> None:
        for rollout in self._rollouts:
            rollout.close()
