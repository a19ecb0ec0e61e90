"""Runs side by side: what each took, what it reached, how sure that is, how it ended, and in which settings they differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from shoal.analysis.statistics import bootstrap_interval, interquartile_mean
from shoal.analysis.trials import Group, Trial
from shoal.base.errors import ShoalError
from shoal.runs.panel import NotRunningError
from shoal.runs.status import obey

RETURN, SCORE, SPREAD = "rollout/ep_rew_mean", "eval/mean_reward", "eval/std_reward"


def compare(groups: list[Group]) -> dict[str, Any]:
    """One document: a record of each, and the settings that differ with the values that occur in each."""
    return {"runs": [summary(group) for group in groups], "differences": differences(groups)}


def summary(group: Group) -> dict[str, Any]:
    """Means of steps and seconds; interquartile means of what runs reached, `low` and `high` their 95 % intervals."""
    steps, seconds = ([trial.ended[key] or 0 for trial in group.trials] for key in ("step", "elapsed"))
    count = len(group.trials)
    return {
        "run": group.label,
        "trials": count,
        "seeds": sorted({trial.settings.get("seed") for trial in group.trials} - {None}),
        "steps": sum(steps) / count,
        "seconds": sum(seconds) / count,
        "steps_per_second": sum(steps) / sum(seconds) if sum(seconds) else None,
        "final_return": _together(group, lambda trial: _last(trial, RETURN)),
        "best_return": _together(group, lambda trial: max(_column(trial, RETURN), default=None)),
        "evaluation": _evaluation(group),
        "ended": dict(Counter(map(_ending, group.trials))),
    }


def _together(group: Group, value: Callable[[Trial], float | None]) -> dict[str, float | None] | None:
    """One number of each run as one, over the runs that have it."""
    values = [value(trial) for trial in group.trials]
    strata = [[number for i in stratum if (number := values[i]) is not None] for stratum in group.strata]
    known = [number for part in strata for number in part]
    if not known:
        return None
    low, high = bootstrap_interval([part for part in strata if part])
    return {"mean": float(interquartile_mean(known)), "low": _finite(low), "high": _finite(high)}


def _evaluation(group: Group) -> dict[str, float | None] | None:
    """Of several runs as everything else; of one run the interval is that of its episodes, by the normal approximation."""
    found = _together(group, lambda trial: _last(trial, SCORE))
    if found is None or len(group.trials) > 1:
        return found
    (trial,) = group.trials
    spread, episodes = _last(trial, SPREAD), trial.settings.get("stop.episodes")
    if spread is None or not episodes:
        return found
    reach = 1.96 * spread / math.sqrt(episodes)
    assert found["mean"] is not None
    return {"mean": found["mean"], "low": found["mean"] - reach, "high": found["mean"] + reach}


def _column(trial: Trial, name: str) -> list[float]:
    return [row[name] for row in trial.rows if row.get(name) is not None]


def _last(trial: Trial, name: str) -> float | None:
    return next(reversed(_column(trial, name)), None)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _ending(trial: Trial) -> str:
    """Its reason without the numbers behind it."""
    if trial.ended["reason"] is not None:
        return str(trial.ended["reason"]).partition(":")[0]
    try:
        return str(obey(trial.folder, "status")["state"])
    except NotRunningError:  # a crash, or a run of another machine
        return "no end recorded"
    except ShoalError:
        return "does not answer"


def differences(groups: list[Group]) -> dict[str, list[list[Any]]]:
    """Settings that not all runs agree in -> of each group, the values that occur, each once; none where it has no such key."""
    return differing_settings([[trial.settings for trial in group.trials] for group in groups])


def differing_settings(groups: list[list[dict[str, Any]]]) -> dict[str, list[list[Any]]]:
    """The same of the settings alone, with dotted keys."""
    everyone = [settings for group in groups for settings in group]
    keys = sorted(set().union(*everyone) - {"name"})
    return {
        key: [_each_once(settings[key] for settings in group if key in settings) for group in groups]
        for key in keys
        if len({repr(settings[key]) if key in settings else "" for settings in everyone}) > 1
    }


def _each_once(values: Iterable[Any]) -> list[Any]:
    return list({repr(value): value for value in values}.values())
