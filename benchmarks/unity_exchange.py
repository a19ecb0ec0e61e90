"""One exchange with a scripted Unity player: 32 agents that see 100 floats each. `python benchmarks/unity_exchange.py`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from shoal.api.experiment import EnvConfig
from shoal.envs import make_env

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "envs"))
from outside_games import executable

AGENTS, FLOATS, STEPS = 32, 100, 2_000


def main() -> None:
    """The player repeats one message, so that its own work is small."""
    with tempfile.TemporaryDirectory() as folder:
        file = executable(Path(folder), "unity_still_player.py", "Still.x86_64")
        args = ["--agents", str(AGENTS), "--floats", str(FLOATS)]
        env = make_env(EnvConfig(id=f"unity:{file}", kwargs={"args": args, "areas": 1}), 1)
        try:
            env.reset(0)
            actions = {name: np.zeros((1, AGENTS, 2), np.float32) for name in env.groups}
            times = []
            for _ in range(STEPS):
                began = time.perf_counter()
                env.step(actions)
                times.append(time.perf_counter() - began)
        finally:
            env.close()
    middle, late = np.percentile(times, [50, 95]) * 1e3
    print(f"{AGENTS} agents x {FLOATS} floats: {middle:.2f} ms an exchange (median), {late:.2f} ms (95 %)")


if __name__ == "__main__":
    main()
