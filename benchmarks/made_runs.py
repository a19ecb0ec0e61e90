"""Run folders out of thin air, for those who measure or show what reads them: as a run would leave them, in milliseconds."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

CONFIG = """\
env: {{id: CartPole-v1, num_envs: 32}}
algorithm: {{name: ppo, lr: {lr}, unroll: 64, epochs: 4}}
model: {{name: mlp, hidden: [64, 64]}}
placement: {{actors: 2, trainers: 1, max_lag: 1, inference: inline}}
evaluation: {{every: 30.0}}
stop: {{steps: {steps}, updates: null, seconds: 259200.0, return: 475.0, episodes: 100}}
seed: {seed}
name: {name}
"""


def make_run(
    root: Path, name: str, trial: str, rows: int = 60, *, seed: int = 1, lr: float = 0.001, end: str | None = "done"
) -> Path:
    """`end`: why it ended; None: it says nothing, as a run that died."""
    folder = root / name / trial
    folder.mkdir(parents=True)
    steps = 2048 * rows
    (folder / "config.yaml").write_text(CONFIG.format(lr=lr, seed=seed, name=name, steps=steps))
    write_rows(folder / "metrics.jsonl", 0, rows, seed)
    events: list[dict[str, Any]] = [{"time": _time(), "kind": "start", "version": 0, "resumed": False}]
    events += [_evaluation(update, rows, seed) for update in range(max(1, rows // 6), rows + 1, max(1, rows // 6))]
    if end is not None:
        events.append(
            {"time": _time(), "kind": "stop", "reason": end, "steps": steps, "update": rows, "elapsed": 0.05 * rows}
        )
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return folder


def write_rows(path: Path, first: int, last: int, seed: int = 1, total: int | None = None) -> None:
    """Append rows of the updates between; a million take some seconds."""
    random = np.random.default_rng(seed + first)
    with open(path, "a") as file:
        for begin in range(first, last, 20_000):
            updates = np.arange(begin, min(last, begin + 20_000)) + 1
            noise = random.normal(0, 1, (len(updates), 4))
            share = updates / (total or max(last, 1))
            returns = 500 / (1 + np.exp(-10 * (share - 0.35 - 0.03 * (seed % 5)))) + 9 * noise[:, 0]
            rows = zip(updates.tolist(), returns.tolist(), noise.tolist(), share.tolist(), strict=True)
            file.write("".join(_row(update, value, wobble, part) for update, value, wobble, part in rows))


def _row(update: int, value: float, noise: list[float], share: float) -> str:
    value = min(500.0, max(9.0, value))
    return (
        f'{{"step": {2048 * update}, "update": {update}, "rollout/episodes": {4 * update}, "rollout/ep_rew_mean": {value:.3f}, '
        f'"rollout/ep_len_mean": {value:.3f}, "time/actor_worked": {0.62 + 0.02 * noise[1]:.4f}, "time/actor_inference": 0.21, '
        f'"time/actor_waited_input": 0.0, "time/actor_waited_slot": {0.17 - 0.02 * noise[1]:.4f}, '
        f'"time/trainer_worked": {0.44 + 0.02 * noise[2]:.4f}, "time/trainer_waited_slot": 0.06, '
        f'"time/trainer_waited_input": {0.5 - 0.02 * noise[2]:.4f}, '
        f'"train/loss": {0.4 * math.exp(-3 * share) + 0.02 * noise[3]:.5f}, "train/approx_kl": {0.008 + 0.001 * noise[2]:.5f}, '
        f'"train/value_loss": {0.9 * math.exp(-4 * share) + 0.01 * abs(noise[1]):.5f}, '
        f'"train/entropy_loss": {-0.69 + 0.4 * share:.5f}, '
        f'"train/lag": 1, "time/fps": {41000 + 900 * noise[0]:.1f}, "time/elapsed": {0.05 * update:.3f}, '
        f'"rows/produced": {2048 * update + 2048}, "rows/trained": {2048 * update}, "rows/in_flight": 2048}}\n'
    )


def _evaluation(update: int, rows: int, seed: int) -> dict[str, Any]:
    mean = 500 / (1 + math.exp(-10 * (update / rows - 0.3 - 0.02 * (seed % 5))))
    return {
        "time": _time(), "kind": "evaluation", "version": update, "steps": 2048 * update, "episodes": 32, "mean_reward": mean,
        "std_reward": 20.0, "ci_low": mean - 9, "ci_high": mean + 8, "length": mean, "best": True, "video": None,
    }  # fmt: skip


def _time() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
