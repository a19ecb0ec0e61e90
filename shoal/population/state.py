"""What is known of a population: its journal in, the members as they stand out. Nothing is kept beside the journal."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal.population.journal import Line

RETRIES = 2
"""Crashes in a row after which a member is tried again; one more, and it has failed."""
OVER = ("ended", "stopped", "failed", "pruned")
"""States that a member does not leave."""


@dataclass(frozen=True)
class Score:
    """How good a member was at so many steps."""

    steps: int
    mean: float
    returns: list[float] = field(default_factory=list)
    """Of each greedy episode, where there were any."""

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, by the normal approximation; without episodes it has no width."""
        if len(self.returns) < 2:
            return self.mean, self.mean
        reach = 1.96 * statistics.stdev(self.returns) / len(self.returns) ** 0.5
        return self.mean - reach, self.mean + reach


@dataclass
class Member:
    """One run of the population."""

    name: str
    number: int
    words: list[str]
    """Settings on top of the population's: `key=value`."""
    state: str = "waiting"
    """`waiting`, `running`, `paused`, `ended` by its own stop rule, `stopped` by somebody, `pruned`, or `failed`."""
    steps: int = 0
    version: int = 0
    turns: int = 0
    """That came to their end."""
    scores: list[Score] = field(default_factory=list)
    """At the end of each turn, oldest first; a copy has those of its donor."""
    core_seconds: float = 0.0
    swap_seconds: float = 0.0
    """Of its time in slots, what was not spent on training."""
    slot_seconds: float = 0.0
    tries: int = 0
    """Crashes since its last turn that came to an end."""
    reason: str = ""
    """Why it is in that state."""
    copy: Line | None = None
    """What it is about to take over."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the line that made it said besides."""

    @property
    def over(self) -> bool:
        """Nothing will be done for it any more."""
        return self.state in OVER

    @property
    def score(self) -> Score | None:
        """The newest."""
        return self.scores[-1] if self.scores else None


class State:
    """All members, by name, as the lines that were applied left them."""

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self.members: dict[str, Member] = {}
        self.reason: str | None = None
        """Why the population is over."""
        self.paused = False
        self.seconds = 0.0
        """Wall time of all starts that were recorded."""
        self.lines: list[Line] = []
        for line in lines:
            self.apply(line)

    def apply(self, line: Line) -> None:
        """Take in one line."""
        self.lines.append(line)
        kind, member = line["kind"], self.members.get(line.get("member", ""))
        if kind == "member":
            self._create(line)
        elif kind in ("begun", "over"):
            self._begin_or_end(line)
        elif kind == "compared":
            for decision in line["decisions"]:
                _change(self.members[decision["member"]], decision)
        elif kind in ("paused", "unpaused") and member is None:
            self.paused = kind == "paused"
        elif member is not None:
            _change(member, line)

    def _create(self, line: Line) -> None:
        known = ("kind", "member", "words", "reason")
        facts = {key: value for key, value in line.items() if key not in known}
        self.members[line["member"]] = Member(line["member"], len(self.members), line["words"], facts=facts)

    def _begin_or_end(self, line: Line) -> None:
        """A new start finds nobody at work, whatever the last one left, and lets those go on that were paused."""
        self.seconds = line.get("seconds", self.seconds)
        self.reason = line["reason"] if line["kind"] == "over" else None
        for member in self.members.values():
            if member.state == "running" or (member.state == "paused" and line["kind"] == "begun"):
                member.state = "waiting"
        self.paused = self.paused and line["kind"] == "over"

    def waiting(self) -> list[Member]:
        """Those that may be given a slot, in their order."""
        return [member for member in self.members.values() if member.state == "waiting"]

    def living(self) -> list[Member]:
        """Those for whom something is still to be done."""
        return [member for member in self.members.values() if not member.over]

    @property
    def steps(self) -> int:
        """Of all members."""
        return sum(int(line["trained"]) for line in self.lines if line["kind"] in ("turn", "left"))

    @property
    def core_seconds(self) -> float:
        """Of all members."""
        return sum(member.core_seconds for member in self.members.values())


def _change(member: Member, line: Line) -> None:
    kind = line["kind"]
    if kind == "started":
        member.state = "running"
    elif kind in ("turn", "left"):
        _end_turn(member, line)
    elif kind == "crashed":
        member.state, member.tries, member.reason = "waiting", member.tries + 1, line["reason"]
    elif kind in ("paused", "stopped", "pruned", "failed"):
        member.state, member.reason = kind, line["reason"]
    elif kind == "unpaused":
        member.state = "waiting"
    elif kind == "copied":
        member.copy, member.scores = line, [_score(each) for each in line["scores"]]
        member.steps, member.version = line["steps"], line["version"]
    elif kind == "taken":
        member.copy = None
    elif kind == "changed":
        member.words = line["words"]
        member.facts["values"] = line["values"]


def _end_turn(member: Member, line: Line) -> None:
    """`turn`: it came to its end, with a score; `left`: somebody wanted the slot back before that."""
    member.steps, member.version, member.tries = line["steps"], line["version"], 0
    member.core_seconds += line["core_seconds"]
    member.swap_seconds += line["swap_seconds"]
    member.slot_seconds += line["slot_seconds"]
    member.reason = line["reason"]
    if line["kind"] == "left":
        member.state = "waiting" if member.state == "running" else member.state
        return
    member.turns += 1
    if line["score"] is not None:
        member.scores.append(_score({**line["score"], "steps": line["steps"]}))
    if member.state == "running":
        member.state = "ended" if line["over"] else "waiting"


def _score(line: Line) -> Score:
    return Score(line["steps"], line["mean"], line.get("returns", []))


def summary(member: Member) -> dict[str, Any]:
    """A member in a line of a table."""
    return {
        "member": member.name, "state": member.state, "steps": member.steps, "version": member.version,
        "score": None if member.score is None else member.score.mean, "core_seconds": member.core_seconds,
        "reason": member.reason,
    }  # fmt: skip
