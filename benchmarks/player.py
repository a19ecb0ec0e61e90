"""What a decision costs in a program of one's own: `player.act` on one observation, beside stable-baselines3's `model.predict`.

Microseconds of CPU time a call, in one thread: median and lowest of many rounds. Networks are as large as in training and as good
as new, which costs the same. stable-baselines3 is measured where it is installed: here, or in the environment that other
benchmarks make for it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from typing import Any

from harness import HERE, machine, run_child

BAR = 80.0
"""Microseconds, for 2 x 64 tanh layers on two quiet cores."""
CALLS = 50
"""In a round."""
SIDES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "CartPole, 2 x 64": ({"id": "CartPole-v1"}, {"name": "mlp", "hidden": [64, 64]}),
    "Pendulum, 2 x 64": ({"id": "Pendulum-v1"}, {"name": "mlp", "hidden": [64, 64]}),
    "CartPole, GRU 64": ({"id": "CartPole-v1"}, {"name": "gru", "hidden": [64, 64]}),
}


def rounds_of(act: Callable[[], Any], rounds: int) -> list[float]:
    """Microseconds a call, round by round, from the fastest to the slowest."""
    timeit.timeit(act, number=CALLS)
    return sorted(
        seconds / CALLS * 1e6 for seconds in timeit.repeat(act, timer=time.process_time, number=CALLS, repeat=rounds)
    )


def own(env: dict[str, Any], model: dict[str, Any], rounds: int) -> list[float]:
    """Of a player."""
    import gymnasium

    import shoal

    experiment = shoal.Experiment.parse({"env": env, "model": model, "stop": {"updates": 1}})
    with tempfile.TemporaryDirectory() as folder:
        outcome = shoal.train(experiment, root=folder, on="inline", quiet=True)
        player = shoal.load(outcome.folder).policy().player()
    observation, _ = gymnasium.make(env["id"]).reset(seed=0)
    return rounds_of(lambda: player.act(observation), rounds)


def sb3_python() -> str | None:
    """Where it is installed; None: nowhere."""
    if importlib.util.find_spec("stable_baselines3") is not None:
        return sys.executable
    python = HERE / ".venvs" / "sb3" / "bin" / "python"
    return str(python) if python.exists() else None


def said(name: str, found: list[float]) -> str:
    return f"{name:28} {found[len(found) // 2]:7.1f} us a call (lowest {found[0]:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=201)
    rounds: int = parser.parse_args().rounds
    print(f"{machine()}, {rounds} rounds of {CALLS} calls")
    medians = {}
    for name, (env, model) in SIDES.items():
        found = own(env, model, rounds)
        medians[name] = found[rounds // 2]
        print(said(f"shoal, {name}", found), flush=True)
    python = sb3_python()
    if python is None:
        print("stable-baselines3 is not installed: benchmarks/cartpole_ppo.py makes an environment with it")
    else:
        for name in ("CartPole", "Pendulum"):
            run = run_child(python, "sb3_predict.py", {"id": f"{name}-v1", "rounds": rounds, "calls": CALLS})
            print(said(f"{run['version']}, {name}, 2 x 64", run["microseconds"]), flush=True)
    worst = max(value for name, value in medians.items() if "2 x 64" in name)
    print(f"bar: {BAR:g} us; {'kept' if worst <= BAR else 'missed'} at load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
