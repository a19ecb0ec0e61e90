"""EnvPool's environments behind the contract of Env, beside EnvPool's own loop: same copies, threads and random actions, in turns.

`env` is `Env.step`, what an actor calls; `envpool` is the `step` of a pool as EnvPool's users call it. Both are open at once and
take short turns, so that what the machine does meanwhile it does to both. Prints steps per second of both and the share that is
left; calls that only reset a copy that ended are steps of neither. (It is not called envpool.py: that would be imported in the
place of the package.)
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from figures import median, ratio
from harness import machine, save

from shoal.api.experiment import EnvConfig
from shoal.envs import make_env

BAR = 0.85
"""Share of EnvPool's own steps per second."""
TASKS = ("Pong-v5", "HalfCheetah-v4")
DRAWN = 64
Lap = Callable[[], int]
"""Steps of all copies with all actions that were drawn; how many."""


def drawn(space: Any, copies: int) -> list[Any]:
    """Actions for all copies, drawn before the clock starts."""
    random = np.random.default_rng(0)
    if hasattr(space, "n"):
        return [random.integers(space.n, size=copies) for _ in range(DRAWN)]
    return [random.uniform(space.low, space.high, (copies, *space.shape)).astype(space.dtype) for _ in range(DRAWN)]


@contextmanager
def peer(task: str, copies: int, threads: int) -> Iterator[Lap]:
    """EnvPool alone, as its users step it."""
    import envpool

    pool = envpool.make_gymnasium(task, num_envs=copies, num_threads=threads, seed=1)
    actions, idle = drawn(pool.action_space, copies), [np.zeros(copies, bool)]
    pool.reset()

    def lap() -> int:
        steps = 0
        for each in actions:
            _, _, terminated, truncated, _ = pool.step(each)
            steps += copies - int(idle[0].sum())
            idle[0] = terminated | truncated
        return steps

    yield lap
    pool.close()


@contextmanager
def ours(task: str, copies: int, threads: int) -> Iterator[Lap]:
    """The same pool as an Env."""
    env = make_env(EnvConfig(id=f"envpool/{task}", kwargs={"num_threads": threads}), copies)
    actions = [{"agent": each[:, None]} for each in drawn(env.groups["agent"].action_space, copies)]
    env.reset(1)
    yield lambda: sum(env.step(each).advanced for each in actions)
    env.close()


SIDES = {"envpool": peer, "env": ours}


def rate(lap: Lap, seconds: float) -> float:
    """Steps per second."""
    began, steps = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < seconds:
        steps += lap()
    return steps / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--copies", type=int, default=64)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=2.0, help="of each turn")
    parser.add_argument("--repeats", type=int, default=15, help="turns of each")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    options = parser.parse_args()
    if importlib.util.find_spec("envpool") is None:
        print('no EnvPool here: pip install "shoal[envpool]"')
        return
    print(f"{machine()}, {options.copies} copies, {options.threads} threads", flush=True)
    results: dict[str, dict[str, list[float]]] = {task: {name: [] for name in SIDES} for task in options.tasks}
    for task, found in results.items():
        with ExitStack() as stack:
            laps = {
                name: stack.enter_context(side(task, options.copies, options.threads)) for name, side in SIDES.items()
            }
            for lap in laps.values():  # warms up
                lap()
            for turn in range(options.repeats):
                for name in list(laps)[:: 1 if turn % 2 else -1]:
                    found[name].append(rate(laps[name], options.seconds))
        for name, rates in found.items():
            print(f"  {task:16} {name:8} {median(rates, 0):>32} steps/s", flush=True)
        print(f"  {task:16} share    {ratio(found['env'], found['envpool']):32.2f}", flush=True)
    save(options.json, {"machine": machine(), "rates": results})
    missed = [task for task, found in results.items() if ratio(found["env"], found["envpool"]) < BAR]
    print(
        f"bar: at least {BAR} of EnvPool's own steps per second: {'missed by ' + ', '.join(missed) if missed else 'met'}"
    )
    if missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
