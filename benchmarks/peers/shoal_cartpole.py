"""Shoal's side: PPO on CartPole-v1 with the settings given as JSON; prints one JSON line."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    settings = json.loads(sys.argv[1])
    import resource

    import gymnasium

    from shoal.api.experiment import Experiment
    from shoal.launchers.train import train

    with tempfile.TemporaryDirectory() as root:
        experiment = Experiment.parse(
            {
                "env": {"id": "CartPole-v1", "num_envs": settings["num_envs"], "vector": "loop"},
                "algorithm": {
                    "name": "ppo", "unroll": settings["unroll"], "minibatch": settings["minibatch"],
                    "epochs": settings["epochs"], "lr": settings["lr"], "shared": False,
                },
                "model": {"name": "mlp", "hidden": [64, 64], "activation": "tanh"},
                "stop": {"steps": settings["steps"], "return": settings.get("goal")},
                "seed": settings["seed"],
            }
        )  # fmt: skip
        began = time.time()
        outcome = train(experiment, root=root, quiet=True)
        rows = [json.loads(line) for line in (Path(outcome.folder) / "metrics.jsonl").read_text().splitlines()]
    solved = outcome.reason.startswith("stop.return")
    print(
        json.dumps(
            {
                "points": [(row["time/elapsed"], row["step"]) for row in rows],
                "solved_after": time.time() - settings["began"] if solved else None,
                "training_began_after": began - settings["began"],
                "steps": outcome.steps,
                "cpu_seconds": sum(resource.getrusage(resource.RUSAGE_SELF)[:2]),
                "version": f"gymnasium {gymnasium.__version__}",
            }
        )
    )


main()
