"""A job that may be cut off at any moment, and goes on when it is started again.

The same call trains, goes on, or says that all is done: what a scheduler that preempts jobs wants. On this machine, or
on the Ray cluster that this machine belongs to.

    python examples/cluster_job.py                              # processes of this machine
    python examples/cluster_job.py --on ray                     # a Ray of its own
    python examples/cluster_job.py --on ray --address auto      # the cluster
    python examples/cluster_job.py --slot 20                    # stop after 20 s, as at a time limit; then call it again
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import shoal
from shoal.runs.outcome import Cluster, Outcome

AGAIN = 75
"""Exit code that asks the scheduler for another slot; `sysexits.h` calls it EX_TEMPFAIL."""
LONG = 30 * 24 * 3600.0
"""Seconds of a slot without an end."""


def experiment(steps: int, seconds: float) -> shoal.Experiment:
    """What is trained. Checkpoints come often: what is lost is at most the time since the last."""
    return shoal.Experiment.parse(
        {
            "env": {"id": "shoal/spread", "num_envs": 64},
            "algorithm": {"name": "ppo", "critic": "central", "lr": 2e-3, "unroll": 25, "minibatch": 1_200},
            "placement": {"actors": 2},
            "checkpoint": {"every": "5s"},
            "stop": {"steps": steps, "seconds": seconds},
            "name": "job",
        }
    )


def go_on(options: argparse.Namespace) -> Outcome:
    """From the last checkpoint where there is one, else from the beginning."""
    slot = {"root": options.root, "on": options.on, "quiet": True}
    cluster = Cluster(address=options.address) if options.on == "ray" else None
    folder = Path(options.root, "job", options.trial)
    limit = [
        f"stop.seconds={seconds_so_far(folder) + (options.slot or LONG)}"
    ]  # the run remembers that of its last slot
    if list(folder.glob("checkpoints/*/manifest.json")):
        return shoal.resume("job", options.trial, overrides=limit, cluster=cluster, **slot)
    settings = experiment(options.steps, options.slot or LONG)
    return shoal.train(settings, trial=options.trial, cluster=cluster, **slot)


def seconds_so_far(folder: Path) -> float:
    """`stop.seconds` counts those of earlier slots as well."""
    path = folder / "metrics.jsonl"
    rows = path.read_text().splitlines() if path.exists() else []
    return float(json.loads(rows[-1])["time/elapsed"]) if rows else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description="A job that may be cut off and goes on.")
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument("--slot", type=float, help="seconds of this slot; left out: until it is done")
    parser.add_argument("--on", default="local", help="inline, local or ray")
    parser.add_argument("--address", help="with --on ray: auto, or HOST:PORT")
    parser.add_argument("--trial", default="night")
    parser.add_argument("--root", default="runs")
    options = parser.parse_args()
    outcome = go_on(options)
    print(f"{outcome.reason}: {outcome.steps:,} of {options.steps:,} steps, version {outcome.version}")
    if outcome.steps < options.steps:
        print("not done: start it again")
        sys.exit(AGAIN)
    scores, _ = shoal.evaluate(str(outcome.folder), episodes=20, root=options.root)
    print(f"done: {scores.game or scores.mean:.1f} per agent over 20 greedy episodes")


if __name__ == "__main__":
    main()
