"""What every side of `replay.py` does: fill a prioritised buffer with transitions, then draw, and say anew what each is worth.

Every side works in one thread, so seconds are of CPU time: other programs on the core weigh on nobody.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

PREPARED = 64
"""Steps and priorities that are made before the clock starts, and used again and again."""
WARM = 0.2
"""Of the time or the transitions: what does not count."""


class Work:
    """Steps of `copies` environments of four numbers each, as CartPole has them."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.copies, self.batch, self.capacity = settings["copies"], settings["batch"], settings["capacity"]
        self.seconds, self.seed = settings["seconds"], settings["seed"]
        random = np.random.default_rng(self.seed)
        self.observations = random.normal(size=(PREPARED + 1, self.copies, 4)).astype(np.float32)
        self.actions = random.integers(0, 2, (PREPARED, self.copies))
        self.terminated = random.random((PREPARED, self.copies)) < 0.02
        self.priorities = random.exponential(size=(PREPARED, self.batch)).astype(np.float32)


def adds_per_second(work: Work, add: Callable[[int], None]) -> float:
    """Transitions per second while a buffer fills; `add` takes all copies' step of a number."""
    calls = work.capacity // work.copies
    first = int(calls * WARM)
    for number in range(first):
        add(number % PREPARED)
    began = time.process_time()
    for number in range(first, calls):
        add(number % PREPARED)
    return (calls - first) * work.copies / (time.process_time() - began)


def rounds_per_second(work: Work, play: Callable[[int], None]) -> float:
    """Of a full buffer: `play` draws a batch and gives its transitions the priorities of a number."""
    until = time.process_time() + work.seconds * WARM
    number = 0
    while time.process_time() < until:
        play(number)
        number += 1
    first, began = number, time.process_time()
    while time.process_time() < began + work.seconds:
        play(number)
        number += 1
    return (number - first) / (time.process_time() - began)


def report(work: Work, add: Callable[[int], None], play: Callable[[int], None], version: str) -> None:
    """Measure, and print one JSON line."""
    adds = adds_per_second(work, add)
    print(json.dumps({"adds": adds, "rounds": rounds_per_second(work, play), "version": version}))
