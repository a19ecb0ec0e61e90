"""The limit of mpe2's spread: every core steps copies of its own at random, and nothing else; prints one JSON line."""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
import time

from mpe2 import simple_spread_v3

AGENTS = 3


def step(seed: int, seconds: float, gate: multiprocessing.Barrier, rates: multiprocessing.Queue) -> None:
    """Agent-steps per second of one process."""
    env = simple_spread_v3.parallel_env(max_cycles=25)
    env.reset(seed=seed)
    draw = random.Random(seed)
    drawn = [{agent: draw.randrange(5) for agent in env.possible_agents} for _ in range(1000)]
    gate.wait(60.0)
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for actions in drawn:
            env.step(actions)
            if not env.agents:
                env.reset()
        steps += len(drawn)
    rates.put(AGENTS * steps / (time.perf_counter() - began))


def main() -> None:
    settings = json.loads(sys.argv[1])
    cores = settings["cores"]
    context = multiprocessing.get_context("spawn")
    gate, rates = context.Barrier(cores), context.Queue()
    steppers = [context.Process(target=step, args=(i, settings["seconds"], gate, rates)) for i in range(cores)]
    for each in steppers:
        each.start()
    total = sum(rates.get(timeout=settings["seconds"] + 120.0) for _ in steppers)
    for each in steppers:
        each.join()
    print(json.dumps({"rate": total}))


if __name__ == "__main__":
    main()
