"""What a journal says of a population: its state in, facts that JSON can hold out. Computed once for each change of the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from shoal.dashboard.run_record import finite
from shoal.population.journal import Line, expanded
from shoal.population.lineage import Branch, branches_of
from shoal.population.state import Member, Score, State

MEMBERS, DECISIONS = 500, 300
"""That are shown."""
TOLD = ("copied", "changed", "pruned", "failed", "crashed", "stopped", "paused", "unpaused")
"""Lines of the journal that are decisions about a member."""

Document = dict[str, Any]


@dataclass(frozen=True)
class PopulationFacts:
    """Of one state of the journal."""

    reason: str | None = None
    """Why it is over."""
    head: Document = field(default_factory=dict)
    members: list[Document] = field(default_factory=list)
    until: dict[str, float | None] = field(default_factory=dict)
    """Member -> how far its newest turn goes, in steps; None: to its end."""
    scores: list[Document] = field(default_factory=list)
    """The score of each member at the end of its turns; a copy has those of its donor."""
    lineage: Document = field(default_factory=dict)
    """Branches, each with the one that it comes from; and what was decided, newest first."""

    @classmethod
    def of(cls, state: State) -> PopulationFacts:
        """Whatever is wrong with lines that no Shoal wrote, it is an exception here and nowhere else."""
        origins = {line["member"]: line for line in expanded(state.lines) if line["kind"] == "copied"}
        shown = list(state.members.values())[:MEMBERS]
        return cls(
            None if state.reason is None else str(state.reason)[:500],
            _head(state),
            [_member(each, origins.get(each.name)) for each in shown],
            {line["member"]: finite(line.get("until")) for line in state.lines if line["kind"] == "started"},
            [_scores(each) for each in shown],
            _lineage(state.lines),
        )


def _head(state: State) -> Document:
    members = list(state.members.values())
    scored = [(mean, member) for member in members if (mean := _mean(member)) is not None]
    best = max(scored, key=lambda each: each[0])[1] if scored else None
    return {
        "kind": _kind(members), "steps": state.steps, "elapsed": finite(state.seconds),
        "core_seconds": finite(state.core_seconds), "members": len(members), "over": sum(each.over for each in members),
        "failed": sum(each.state == "failed" for each in members), "turns": sum(each.turns for each in members),
        "best": None if best is None else {"member": best.name, **_interval(best.score)},
    }  # fmt: skip


def _kind(members: list[Member]) -> str:
    if any("trial" in each.facts for each in members):
        return "tuning"
    return "population-based training" if any("values" in each.facts for each in members) else "sweep"


def _member(member: Member, copied: Line | None) -> Document:
    return {
        "member": member.name, "state": member.state, "reason": str(member.reason)[:500], "steps": member.steps,
        "turns": member.turns, "score": None if member.score is None else _interval(member.score),
        "settings": _settings(member),
        "from": None if copied is None else {"member": copied["origin"], "steps": copied["steps"]},
    }  # fmt: skip


def _settings(member: Member) -> dict[str, str]:
    """What tells a member from others: those of a space, or the words of a grid."""
    values = member.facts.get("values") or dict(word.partition("=")[::2] for word in member.words)
    return {str(key)[:100]: _text(value) for key, value in values.items()}


def _scores(member: Member) -> Document:
    x, y = [score.steps for score in member.scores], [finite(score.mean) for score in member.scores]
    return {"member": member.name, "x": x, "y": y}


def _mean(member: Member) -> float | None:
    return None if member.score is None else finite(member.score.mean)


def _interval(score: Score | None) -> dict[str, float | None]:
    assert score is not None
    low, high = score.interval if len(score.returns) > 1 else (None, None)
    return {"mean": finite(score.mean), "low": finite(low), "high": finite(high)}


# ---------------------------------------------------------------- lineage


def _lineage(lines: list[Line]) -> Document:
    branches = [branch for own in branches_of(lines).values() for branch in own]
    numbers = {id(branch): number for number, branch in enumerate(branches)}
    return {
        "branches": [_branch(each, None if each.parent is None else numbers[id(each.parent)]) for each in branches],
        "decisions": list(_decisions(lines))[::-1][:DECISIONS],
    }


def _branch(branch: Branch, parent: int | None) -> Document:
    return {
        "member": branch.member, "begin": branch.begin, "end": branch.end, "reason": branch.reason[:300], "parent": parent,
        "fate": branch.fate[:300], "score": finite(branch.scores[-1][1]) if branch.scores else None,
        "settings": [[step, {key: _text(value) for key, value in values.items()}] for step, values in branch.values],
    }  # fmt: skip


def _decisions(lines: Iterable[Line]) -> Iterator[Document]:
    """What a copy was changed to belongs to the copy."""
    last: Document | None = None
    for line in expanded(lines):
        kind = line["kind"]
        confirms = kind == "member" and "confirms" in line
        if not confirms and (kind not in TOLD or "member" not in line):
            continue
        changes = {key: [_text(value) for value in pair] for key, pair in line.get("changes", {}).items()}
        if kind == "changed" and last is not None and (last["kind"], last["member"]) == ("copied", line["member"]):
            last["changes"] = changes
            continue
        if last is not None:
            yield last
        last = {
            "kind": "confirms" if confirms else kind, "member": line["member"], "steps": finite(line.get("steps")),
            "origin": line.get("origin") or line.get("confirms"), "reason": str(line.get("reason", ""))[:300],
            "changes": changes,
        }  # fmt: skip
    if last is not None:
        yield last


def _text(value: Any) -> str:
    return (f"{value:.4g}" if isinstance(value, float) else str(value))[:100]
