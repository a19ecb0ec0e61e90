"""The runs of a population side by side: a table, a figure, and a file for marl-eval."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from shoal.analysis.comparison import RETURN, SCORE, compare
from shoal.analysis.curves import band
from shoal.analysis.figure import Drawing, has_matplotlib, save
from shoal.analysis.statistics import improvement_interval, interquartile_mean, probability_of_improvement
from shoal.analysis.trials import Group, Trial, join
from shoal.base.files import as_typed, write_atomic
from shoal.population.folder import PopulationFolder

TABLE, FIGURE, MARL_EVAL = "sweep.json", "sweep.png", "marl-eval.json"


def groups_of(folder: PopulationFolder) -> list[Group]:
    """Members that differ in nothing but the seed are one; those without a row of numbers are passed over."""
    trials = [Trial(run) for run in folder.members()]
    return join([Group(trial.folder.name, [trial]) for trial in trials if trial.rows])


def report(path: Path) -> dict[str, Any] | None:
    """What became of each group, and how likely the best is better than each other; kept beside the runs. None: nothing yet."""
    folder = PopulationFolder(path)
    groups = groups_of(folder)
    if not groups:
        return None
    document = {**compare(groups), "improvement": improvements(groups)}
    write_atomic(path / TABLE, json.dumps(document, indent=2) + "\n")
    write_atomic(path / MARL_EVAL, json.dumps(marl_eval(folder, groups), indent=1) + "\n")
    return document


def improvements(groups: list[Group]) -> list[dict[str, Any]]:
    """Of the group with the best interquartile mean against each other, by what its runs scored in the end."""
    finals = {
        group.label: found
        for group in groups
        if (found := [end for t in group.trials if (end := final(t)) is not None])
    }
    if not finals:
        return []
    best = max(finals, key=lambda label: float(interquartile_mean(finals[label])))
    made: list[dict[str, Any]] = []
    for label, values in finals.items():
        if label != best:
            low, high = improvement_interval(finals[best], values)
            chance = probability_of_improvement(finals[best], values)
            interval = {"low": _finite(low), "high": _finite(high)}
            made.append({"better": best, "than": label, "probability": chance, **interval})
    return made


def final(trial: Trial) -> float | None:
    """The last score of greedy episodes, where there is one, else of training."""
    for column in (SCORE, RETURN):
        for row in reversed(trial.rows):
            if row.get(column) is not None:
                return float(row[column])
    return None


def write_figure(path: Path) -> list[str]:
    """Bands of all groups in one figure; lines that say where everything is."""
    folder = PopulationFolder(path)
    groups, lines = groups_of(folder), [f"for marl-eval: {as_typed(path / MARL_EVAL)}"]
    shown = [
        group for group in groups if any(row.get(RETURN) is not None for trial in group.trials for row in trial.rows)
    ]
    if not has_matplotlib():
        return [*lines, "no figure: that needs matplotlib, pip install 'shoal[plot]'"]
    if not shown:
        return lines
    settings = shown[0].trials[0].settings
    goals = [float(settings["stop.return"])] if settings.get("stop.return") is not None else []
    bands = [band(group, RETURN, "steps")[0] for group in shown]
    save([Drawing(bands, RETURN, "steps", f"{folder.name}: {settings.get('env.id')}", goals)], path / FIGURE)
    return [f"figure: {as_typed(path / FIGURE)}", *lines]


def marl_eval(folder: PopulationFolder, groups: list[Group]) -> dict[str, Any]:
    """As marl-eval reads it: environment, task, algorithm, run, step. Runs have equally many steps: those that all have."""
    result: dict[str, Any] = {}
    for group in groups:
        rows = [[row for row in trial.rows if row.get(RETURN) is not None] for trial in group.trials]
        count = min(map(len, rows))
        for trial, mine in zip(group.trials, rows, strict=True):
            task = str(trial.settings.get("env.id"))
            environment, _, short = task.rpartition("/")
            below = result.setdefault(environment or "gymnasium", {}).setdefault(short, {}).setdefault(group.label, {})
            below[f"seed_{trial.settings.get('seed')}"] = {
                **{f"step_{i}": _step(row) for i, row in enumerate(mine[:count])},
                "absolute_metrics": {"return": [final(trial)]},
            }
    return result


def _step(row: dict[str, Any]) -> dict[str, Any]:
    return {"step_count": row["step"], "elapsed_time": row.get("time/elapsed"), "return": [row[RETURN]]}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
