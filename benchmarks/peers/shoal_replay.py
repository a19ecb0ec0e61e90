"""Shoal's side of `replay.py`; prints one JSON line.

A transition is a sequence of one decision, and a row behind it for what followed.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from replay_work import PREPARED, Work, report

from shoal.api.algorithm import Priorities
from shoal.api.fragment import Fragment
from shoal.buffers.prioritised import PrioritisedReplay

ROWS = 2


def fragment(work: Work, number: int) -> Fragment:
    """One step of all copies."""
    lanes = work.copies

    def row(values: np.ndarray) -> np.ndarray:
        """And one behind it that is only seen."""
        return np.stack([values, np.zeros_like(values)])

    return Fragment(
        observation=work.observations[number : number + ROWS].copy(),
        action=row(work.actions[number]),
        reward=row(np.ones(lanes, np.float32)),
        terminated=row(work.terminated[number]),
        truncated=np.zeros((ROWS, lanes), bool),
        valid=row(np.ones(lanes, bool)),
        first=np.zeros((ROWS, lanes), bool),
        version=np.zeros((ROWS, lanes), np.int64),
        extras={},
        action_mask=None,
        state=None,
        lanes=np.arange(lanes),
    )


def main() -> None:
    work = Work(json.loads(sys.argv[1]))
    steps = [fragment(work, number) for number in range(PREPARED)]
    replay = PrioritisedReplay(steps[0], work.capacity, Priorities(alpha=0.6, beta=0.4), seed=work.seed)

    def play(number: int) -> None:
        drawn = replay.sample(work.batch, number)
        replay.revalue(drawn.keys, work.priorities[number % PREPARED])

    report(work, lambda number: replay.insert(steps[number]), play, f"numpy {np.__version__}")


if __name__ == "__main__":
    main()
