"""Run folders as runs leave them, without a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shoal.analysis.trials import Trial
from shoal.monitoring.run_folder import RunFolder


def write_run(root: Path, name: str, returns: list[float | None], *, rows: int = 10, **settings: Any) -> Trial:
    """A run folder as a run leaves it: a row of numbers every `rows` steps."""
    experiment, trial = name.split("/")
    folder = RunFolder.create(root, experiment, trial)
    folder.write_config({"env": {"id": "CartPole-v1"}, "algorithm": {"lr": 0.1}, "seed": 1, **settings})
    lines = [
        {"step": rows * (i + 1), "update": i + 1, "time/elapsed": 0.5 * i, "rollout/ep_rew_mean": value}
        for i, value in enumerate(returns)
    ]
    folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Trial(folder)
