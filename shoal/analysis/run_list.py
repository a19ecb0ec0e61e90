"""All runs of a folder as a list: a record of each, newest first, and the words that choose among them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal.analysis.trials import Trial
from shoal.base.errors import InputError, ShoalError
from shoal.base.table import did_you_mean
from shoal.monitoring.run_folder import DEFAULT_ROOT, RunFolder
from shoal.runs.panel import NotRunningError, ask

_WORD = re.compile(r"([\w./]+)(=|~|<|>)(.*)")
_RETURN = re.compile(rb'"rollout/ep_rew_mean": (-?[\d.]+(?:e[+-]?\d+)?)')


def list_runs(words: list[str], root: Path = DEFAULT_ROOT) -> list[dict[str, Any]]:
    """The records that all `words` fit.

    A word is `key=value`, `key~part`, `key<number` or `key>number`, of a key of the record or of `config.yaml`; any other is a
    part of the run's name.
    """
    trials = [Trial(folder) for folder in RunFolder.everywhere(root)]
    records = [(record_of(trial), trial.settings) for trial in trials]
    return sorted(fitting(words, records), key=lambda record: record["age"])


def fitting(words: list[str], records: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[dict[str, Any]]:
    """Of records with the settings of their runs, those that all `words` fit; a key that no run has is an error."""
    known = {key for record, settings in records for key in (*record, *settings)}
    for word in words:
        match = _WORD.fullmatch(word)
        if match is not None and records and match[1] not in known:
            raise InputError(f"{word}: no run has '{match[1]}'; {did_you_mean(match[1], {*records[0][0]})}")
    return [record for record, settings in records if all(_fits(word, {**settings, **record}) for word in words)]


def record_of(trial: Trial) -> dict[str, Any]:
    """What there is to say of one run in a line."""
    folder, settings, ended = trial.folder, trial.settings, trial.ended
    returns = list(_returns(folder))
    algorithms = [value for key, value in settings.items() if re.fullmatch(r"policies\.[^.]+\.algorithm\.name", key)]
    return {
        "run": folder.name,
        "name": folder.experiment,
        "trial": folder.trial,
        "algorithm": ", ".join(dict.fromkeys(algorithms)) or settings.get("algorithm.name"),
        "env": settings.get("env.id"),
        "seed": settings.get("seed"),
        "state": state_of(folder, ended["reason"]),
        "steps": ended["step"] or 0,
        "best": max(returns, default=None),
        "last": returns[-1] if returns else None,
        "score": ended["score"],
        "age": time.time() - folder.last_written,
    }


def _returns(folder: RunFolder) -> Iterator[float]:
    """Of all rows: their columns alone, since the whole of a long file takes long."""
    if folder.metrics.exists():
        yield from map(float, _RETURN.findall(folder.metrics.read_bytes()))


def state_of(folder: RunFolder, reason: str | None) -> str:
    """`running`, `paused`, ... of a live run; `finished` by a stop rule, `stopped` or `interrupted` by somebody, else `crashed`."""
    if reason is not None:
        return "finished" if reason.startswith("stop.") else str(reason).split()[0]
    try:
        return str(ask(folder, "status", timeout=1.0).get("state", "silent"))
    except NotRunningError:
        return "elsewhere" if (folder.path / "cluster.json").is_file() else "crashed"
    except ShoalError:
        return "silent"


def _fits(word: str, values: dict[str, Any]) -> bool:
    match = _WORD.fullmatch(word)
    if match is None:
        return word in values["run"]
    key, sign, wanted = match.groups()
    value = values.get(key)
    if sign == "~":
        return wanted in str(value)
    mine, theirs = _number(value), _number(wanted)
    if sign == "=":
        return str(value) == wanted or (mine is not None and mine == theirs)
    if theirs is None:
        raise InputError(f"{word}: '{wanted}' is no number; try {key}={wanted}")
    return mine is not None and (mine < theirs if sign == "<" else mine > theirs)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
