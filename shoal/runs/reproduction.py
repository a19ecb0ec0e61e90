"""A run and the same run again: what is different around them, and whether their numbers are equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]
Row = dict[str, Any]

CLOCK = ("time/", "rows/")
"""Columns that tell of a moment: speeds, and counts of rows, which run from a launch to whenever they are read."""
ABSENT = "absent"
_MANY = 8


@dataclass(frozen=True)
class Difference:
    """The first place at which two runs part."""

    row: int
    """Its number, from 1."""
    update: int
    column: str
    then: Any
    now: Any

    def __str__(self) -> str:
        return f"row {self.row} (update {self.update}), {self.column}: {self.then} then, {self.now} now"


def clocked(*, policy_workers: bool, evaluated: bool) -> tuple[str, ...]:
    """How columns begin that depend on the clock: also what policy workers find waiting, and when somebody was evaluated."""
    return (*CLOCK, *(["inference/"] if policy_workers else []), *(["eval/"] if evaluated else []))


def first_difference(then: list[Row], now: list[Row], but: tuple[str, ...] = CLOCK) -> Difference | None:
    """Row by row, column by column; None if all of `then` came again, bit by bit. What `now` has beyond that does not count."""
    for i, row in enumerate(then):
        if i >= len(now):
            return Difference(i + 1, row["update"], "the whole row", "there", ABSENT)
        for column in dict.fromkeys([*row, *now[i]]):
            values = row.get(column, ABSENT), now[i].get(column, ABSENT)
            if not column.startswith(but) and values[0] != values[1]:
                return Difference(i + 1, row["update"], column, *values)
    return None


def changes(then: Record, now: Record) -> list[str]:
    """What is not as it was, a line each: versions, code, machine."""
    return [*_versions(then, now), *_code(then, now, "git"), *_code(then, now, "shoal_git"), *_machine(then, now)]


def _versions(then: Record, now: Record) -> Iterator[str]:
    before, after = ({**record.get("packages", {}), **record.get("versions", {})} for record in (then, now))
    known = "packages" in then  # what a record does not list may have been there
    names = [
        name
        for name in dict.fromkeys([*then.get("versions", {}), *before, *after])
        if before.get(name) != after.get(name) and (known or name in before)
    ]
    yield from (f"{name}: {before.get(name) or 'none'} then, {after.get(name) or 'none'} now" for name in names[:_MANY])
    if len(names) > _MANY:
        yield f"{len(names) - _MANY} more packages have other versions: see `packages` in both provenance.json"


def _code(then: Record, now: Record, key: str) -> Iterator[str]:
    before, after = then.get(key), now.get(key)
    what = "the code" if key == "git" else "Shoal's code"
    if not isinstance(before, dict) or not isinstance(after, dict):
        if isinstance(before, dict) != isinstance(after, dict) and key in then:
            yield f"{what}: in a git repository only {'then' if before else 'now'}"
    elif before["commit"] != after["commit"]:
        yield f"{what}: git commit {_short(before['commit'])} then, {_short(after['commit'])} now"
    elif before["diff"] != after["diff"]:
        yield f"{what}: the changes that are not committed are others"


def _short(commit: str | None) -> str:
    return commit[:12] if commit else "none"


def _machine(then: Record, now: Record) -> Iterator[str]:
    before, after = then.get("machine", {}), now.get("machine", {})
    for key in ("host", "cpu_model", "cpu_instructions", "system"):
        if key in before and before[key] != after.get(key):
            yield f"machine, {key}: {before[key]} then, {after.get(key)} now"
