"""`shoal plot`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.analysis.figure import Drawing, check_format, require_matplotlib, save

if TYPE_CHECKING:
    from shoal.analysis.trials import Trial

_RETURNS = ("rollout/ep_rew_mean", "eval/mean_reward")
"""Columns that `stop.return` is a level of."""
_BY_CHANCE = {
    "rollout/ep_rew_mean": "baseline/random_team_return", "rollout/agent_return": "baseline/random_agent_return",
}  # fmt: skip
"""Column -> what random play earns, in each row of a run of several agents."""


def run(runs: list[str], *, metrics: list[str], axis: str, out: Path) -> None:
    """Read the runs, draw them, say what is missing and where the figure is."""
    require_matplotlib()
    check_format(out)
    from shoal.analysis.curves import band
    from shoal.analysis.trials import find_group, join

    found = [find_group(run) for run in runs]
    notes = [note for _, said in found for note in said]
    groups = join([group for group, _ in found])
    settings = [trial.settings for group in groups for trial in group.trials]
    env_ids = [str(env_id) for env_id in _values(settings, "env.id")]
    title = env_ids[0] if len(env_ids) == 1 else ", ".join(dict.fromkeys(group.label for group in groups))
    drawings = []
    for metric in dict.fromkeys(metrics):
        bands, missing = zip(*(band(group, metric, axis) for group in groups), strict=True)
        notes += [note for each in missing for note in each]
        goals = _values(settings, "stop.return") if metric in _RETURNS else []
        random = _random([trial for group in groups for trial in group.trials], metric) if len(env_ids) == 1 else None
        drawings.append(Drawing(bands, metric, axis, title, [float(goal) for goal in goals], random))
    for note in notes:
        print(f"shoal: {note}", file=sys.stderr)
    save(drawings, out)
    labels = ", ".join(_count(each.label, len(each.curves)) for each in drawings[0].bands)
    print(f"{out}: {', '.join(drawing.metric for drawing in drawings)} of {labels}")


def _values(settings: list[dict[str, Any]], key: str) -> list[Any]:
    """The values of a setting that occur, each once, in order; None is none."""
    return list(dict.fromkeys(each[key] for each in settings if each.get(key) is not None))


def _random(trials: list[Trial], metric: str) -> float | None:
    """What random play earns there, in the mean of the runs that tell it."""
    column = _BY_CHANCE.get(metric, "")
    told = [float(trial.rows[-1][column]) for trial in trials if trial.rows and column in trial.rows[-1]]
    return sum(told) / len(told) if told else None


def _count(label: str, runs: int) -> str:
    return label if runs == 1 else f"{label} ({runs} runs)"
