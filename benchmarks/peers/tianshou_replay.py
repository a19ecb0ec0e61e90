"""Tianshou's side of `replay.py`: a prioritised buffer with a part for each copy; prints one JSON line."""

from __future__ import annotations

import json
import sys

import numba
import numpy as np
import tianshou
from replay_work import PREPARED, Work, report
from tianshou.data import Batch, PrioritizedVectorReplayBuffer


def step(work: Work, number: int) -> Batch:
    """One step of all copies."""
    truncated, terminated = np.zeros(work.copies, bool), work.terminated[number]
    return Batch(
        obs=work.observations[number], act=work.actions[number], rew=np.ones(work.copies, np.float32),
        terminated=terminated, truncated=truncated, done=terminated, obs_next=work.observations[number + 1],
    )  # fmt: skip


def main() -> None:
    work = Work(json.loads(sys.argv[1]))
    np.random.seed(work.seed)
    steps = [step(work, number) for number in range(PREPARED)]
    replay = PrioritizedVectorReplayBuffer(work.capacity, work.copies, alpha=0.6, beta=0.4)

    def play(number: int) -> None:
        _, places = replay.sample(work.batch)
        replay.update_weight(places, work.priorities[number % PREPARED])

    version = f"tianshou {tianshou.__version__}, numba {numba.__version__}, numpy {np.__version__}"
    report(work, lambda number: replay.add(steps[number]), play, version)


if __name__ == "__main__":
    main()
