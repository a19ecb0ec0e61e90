"""Runs on disk, to be looked at together: their settings, their rows, and which of them differ in nothing but the seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from shoal.monitoring.jsonl import in_order
from shoal.monitoring.run_folder import DEFAULT_ROOT, RunFolder
from shoal.runs.status import ended

_DECIDES = ("env.", "algorithm.", "model.", "agents.", "policies.", "deal", "placement.max_lag")
"""Settings that decide what is learned; the others say how long, where, and what is written down."""
_SHOWN = 3
"""Settings in a label."""


def what_is_learned(settings: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """What a run shares with other seeds of the same: the settings that decide what is learned."""
    return tuple(sorted((key, repr(value)) for key, value in settings.items() if key.startswith(_DECIDES)))


@dataclass(frozen=True)
class Trial:
    """One run: where it is and what it left, live or years later."""

    folder: RunFolder

    @cached_property
    def settings(self) -> dict[str, Any]:
        """`config.yaml` with dotted keys. Not checked against the settings of today: the run may be older."""
        return dict(flat(self.folder.read_config()))

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Its rows of numbers, oldest first."""
        return in_order(self.folder.metrics)

    @cached_property
    def ended(self) -> dict[str, Any]:
        """How it ended; its `reason` is None where it lives, or where a crash left no time to say it."""
        return ended(self.folder)

    @property
    def learned(self) -> tuple[tuple[str, str], ...]:
        """What it shares with other seeds of the same: the settings that decide what is learned."""
        return what_is_learned(self.settings)

    def repeats(self, other: Trial) -> bool:
        """It has the seed and the numbers of the other as far as it goes: an exact run again, which adds nothing new."""
        if self.settings.get("seed") != other.settings.get("seed") or self.learned != other.learned:
            return False
        ours = [_without_time(row) for row in self.rows]
        return bool(ours) and ours == [_without_time(row) for row in other.rows[: len(ours)]]


@dataclass(frozen=True)
class Group:
    """What one word of a command means: a run, or the runs of an experiment, as one."""

    label: str
    trials: list[Trial]

    @property
    def strata(self) -> list[list[int]]:
        """Indices of its trials, by settings: within each, only the seed and chance differ."""
        found: dict[Any, list[int]] = {}
        for i, trial in enumerate(self.trials):
            found.setdefault(trial.learned, []).append(i)
        return list(found.values())

    @property
    def differing(self) -> list[str]:
        """Keys that decide what is learned, and that its trials do not agree in."""
        values = [dict(trial.learned) for trial in self.trials]
        keys = sorted(set().union(*values))
        return [key for key in keys if len({value.get(key) for value in values}) > 1]


def find_group(run: str, root: Path = DEFAULT_ROOT) -> tuple[Group, list[str]]:
    """The runs that are meant, each counted once, and what to say aloud about them."""
    trials = [Trial(folder) for folder in RunFolder.find_all(run, root)]
    label = trials[0].folder.name if len(trials) == 1 else trials[0].folder.experiment
    kept, notes = _each_once(trials)
    group = Group(label, kept)
    if group.differing:
        keys = ", ".join(group.differing[:4]) + (", ..." if len(group.differing) > 4 else "")
        notes.append(f"{label}: its {len(kept)} runs differ in {keys}; name trials one by one to see them apart")
    return group, notes


def join(groups: list[Group]) -> list[Group]:
    """Trials that were named one by one, of one experiment and of equal settings but for the seed, become one group.

    Several groups of one experiment are named by the settings in which they differ.
    """
    joined: dict[Any, list[Group]] = {}
    for i, group in enumerate(groups):
        first = group.trials[0]
        single = group.label == first.folder.name
        joined.setdefault((first.folder.experiment, first.learned) if single else i, []).append(group)
    return _told_apart([_joined(parts) for parts in joined.values()])


def _joined(parts: list[Group]) -> Group:
    if len(parts) == 1:
        return parts[0]
    return Group(parts[0].trials[0].folder.experiment, [trial for part in parts for trial in part.trials])


def _told_apart(groups: list[Group]) -> list[Group]:
    experiments = {id(group): group.trials[0].folder.experiment for group in groups}
    told = []
    for group in groups:
        experiment = experiments[id(group)]
        mates = [other for other in groups if experiments[id(other)] == experiment]
        keys = Group("", [other.trials[0] for other in mates]).differing
        if not keys or group.differing:  # it is alone, or has no one setting itself
            told.append(group)
            continue
        values = [f"{_short(key, keys)}={group.trials[0].settings.get(key)}" for key in keys[:_SHOWN]]
        label = ", ".join(values) + (", ..." if len(keys) > _SHOWN else "")
        told.append(Group(label if len(mates) == len(groups) else f"{experiment}: {label}", group.trials))
    return told


def _short(key: str, keys: list[str]) -> str:
    """Without its section, where that tells it from the others."""
    last = key.rpartition(".")[2]
    return last if [other.rpartition(".")[2] for other in keys].count(last) == 1 else key


def _each_once(trials: list[Trial]) -> tuple[list[Trial], list[str]]:
    kept: list[Trial] = []
    notes = []
    for trial in sorted(trials, key=lambda each: len(each.rows), reverse=True):
        first = next((other for other in kept if trial.repeats(other)), None)
        if first is None:
            kept.append(trial)
        else:
            notes.append(f"{trial.folder.name} repeats {first.folder.name}, number by number: counted once")
    return [trial for trial in trials if trial in kept], notes


def _without_time(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if not key.startswith(("time/", "rows/"))}


def flat(values: dict[str, Any], at: str = "") -> Iterable[tuple[str, Any]]:
    """Settings with dotted keys."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{at}{key}.")
        else:
            yield f"{at}{key}", value
