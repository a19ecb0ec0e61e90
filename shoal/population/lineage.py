"""Where members come from: the journal in, a tree of branches out, and the settings of one branch over steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from shoal.base.errors import InputError
from shoal.base.table import did_you_mean
from shoal.population.journal import Line, expanded


@dataclass
class Branch:
    """What a member learned between two copies: it begins as another's, and ends where the member takes over something else."""

    member: str
    begin: int
    """Steps."""
    values: list[tuple[int, dict[str, Any]]]
    """From which step on, which settings."""
    parent: Branch | None = None
    reason: str = ""
    end: int = 0
    scores: list[tuple[int, float]] = field(default_factory=list)
    children: list[Branch] = field(default_factory=list)
    fate: str = ""
    """How it ended: empty while it goes on."""


def branches_of(lines: list[Line]) -> dict[str, list[Branch]]:
    """Member -> its branches, oldest first."""
    found: dict[str, list[Branch]] = {}
    for line in expanded(lines):
        name, kind = line.get("member", ""), line["kind"]
        if kind == "member":
            found[name] = [Branch(name, 0, [(0, line.get("values", {}))], reason=line["reason"])]
        elif name not in found:
            continue
        elif kind == "copied":
            origin, last = found[line["origin"]][-1], found[name][-1]
            last.fate = f"gave way to {origin.member}: {line['reason']}"
            branch = Branch(
                name, line["steps"], [(line["steps"], last.values[-1][1])], origin, line["reason"], line["steps"]
            )
            origin.children.append(branch)
            found[name].append(branch)
        elif kind == "changed":
            _change(found[name][-1], line)
        elif kind in ("turn", "left"):
            _advance(found[name][-1], line)
        elif kind in ("failed", "stopped", "pruned"):
            found[name][-1].fate = f"{kind}: {line['reason']}"
    return found


def _change(branch: Branch, line: Line) -> None:
    at = max(line["steps"], branch.begin)
    kept = [each for each in branch.values if each[0] < at]
    branch.values = [*kept, (at, line["values"])]


def _advance(branch: Branch, line: Line) -> None:
    branch.end = line["steps"]
    if line.get("score") is not None:
        branch.scores.append((line["steps"], line["score"]["mean"]))
    if line.get("over"):
        branch.fate = line["reason"]


# ---------------------------------------------------------------- as text


def tree(lines: list[Line]) -> Iterator[str]:
    """A line per branch, below the one that it comes from."""
    for branches in branches_of(lines).values():
        yield from _below(branches[0], 0)


def _below(branch: Branch, depth: int) -> Iterator[str]:
    score = f", score {branch.scores[-1][1]:,.2f}" if branch.scores else ""
    because = f" ({branch.reason})" if branch.parent is not None else ""
    settings = " then ".join(_said(values) for _, values in branch.values) or "as the recipe says"
    fate = f"; {branch.fate}" if branch.fate else ""
    yield f"{'  ' * depth}{branch.member} {branch.begin:,} to {branch.end:,} steps{because}: {settings}{score}{fate}"
    for child in branch.children:
        yield from _below(child, depth + 1)


def _said(values: dict[str, Any]) -> str:
    shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in values.items()}
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in shown.items())


# ---------------------------------------------------------------- one branch again


def ancestry(lines: list[Line], member: str) -> list[tuple[int, dict[str, Any]]]:
    """The settings that led to a member as it is now: from which step on, which."""
    found = branches_of(lines)
    if member not in found:
        raise InputError(f"there is no member '{member}'; {did_you_mean(member, found)}")
    branch: Branch | None = found[member][-1]
    steps: list[tuple[int, dict[str, Any]]] = []
    until = None
    while branch is not None:
        steps = [each for each in branch.values if until is None or each[0] < until] + steps
        until, branch = branch.begin, branch.parent
    return steps


def schedules(history: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    """Key -> its one value, or a schedule of jumps."""
    found: dict[str, Any] = {}
    for key in history[0][1]:
        points = [(step, values[key]) for step, values in history]
        changes = [each for each, before in zip(points[1:], points, strict=False) if each[1] != before[1]]
        first = points[0][1]
        found[key] = first
        if changes:
            jumps = [[step, value] for step, value in changes]
            found[key] = {"start": first, "end": changes[-1][1], "jumps": jumps}
    return found
