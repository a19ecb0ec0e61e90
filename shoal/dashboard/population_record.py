"""A population for its page: its journal in as it grows, and what the live one says of itself; documents that JSON can hold out."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from shoal.base.errors import ShoalError, one_line
from shoal.dashboard.below import Root, Stamp, is_socket, stamp
from shoal.dashboard.run_record import finite, states_group
from shoal.dashboard.runs_index import RunsIndex
from shoal.monitoring.run_folder import POPULATION, RunFolder
from shoal.population.journal import Journal, Line, expanded
from shoal.population.lineage import Branch, branches_of
from shoal.population.state import Member, Score, State
from shoal.runs.panel import ask

BETWEEN = 0.9
"""Seconds between two looks, however many ask."""
SHARE = 0.05
"""Of the time, at most, is spent on reading a journal again that grows."""
PATIENCE = 1.0
"""Seconds for a population to answer."""
MEMBERS, DECISIONS = 500, 300
"""That are shown."""
GROUPS = {"running": "live", "waiting": "waiting", "paused": "paused", "failed": "died"}
"""State of a member -> how it is coloured; whatever else has ended."""
TOLD = ("copied", "changed", "pruned", "failed", "crashed", "stopped", "paused", "unpaused")
"""Lines of the journal that are decisions about a member."""


class PopulationRecord:
    """One population, shared by all pages that show it."""

    def __init__(self, root: Root, name: str) -> None:
        self.name, self.lock = name, threading.RLock()
        self.state, self.status = State(), dict[str, Any]()
        self.number = 0
        """Of the last change of its journal."""
        self._root = root
        self._stamp: Stamp | None = None
        self._lives = False
        self._trouble = ""
        self._looked_at, self._read_at = float("-inf"), float("-inf")

    def look(self) -> None:
        """Read what is new. FileNotFoundError where there is no population of that name."""
        with self.lock:
            now = time.monotonic()
            if now - self._looked_at < BETWEEN:
                return
            self._looked_at = now
            with self._root.folder(self.name) as handle:
                if stamp(handle, POPULATION) is None:
                    raise FileNotFoundError(self.name)
                found, self._lives = stamp(handle, "journal.jsonl"), is_socket(handle, "control.sock")
                folder = Path(f"/proc/self/fd/{handle}")
                if found != self._stamp and now >= self._read_at:
                    self._stamp = found
                    self._read(folder)
                    self._read_at = time.monotonic() + (time.monotonic() - now) / SHARE
                self.status = _ask(folder) if self._lives else {}

    def _read(self, folder: Path) -> None:
        try:
            self.state = State(Journal(folder / "journal.jsonl").read())
            self._trouble = ""
        except Exception as error:  # a file that no Shoal wrote: the page says so, and the others go on
            self._trouble = one_line(error).replace(str(folder), self.name)[:500]
        self.number += 1

    # ---------------------------------------------------------------- the whole

    def head(self, index: RunsIndex) -> dict[str, Any]:
        """The whole in a few numbers, and who is in which slot."""
        state, why = self._word(index)
        members, status = list(self.state.members.values()), self.status
        best = max((member for member in members if _mean(member) is not None), key=_mean, default=None)  # type: ignore[arg-type]
        return {
            "population": self.name, "kind": self._kind(), "state": state, "group": states_group(state), "why": why,
            "trouble": self._trouble, "steps": finite(status.get("steps")) or self.state.steps,
            "elapsed": finite(status.get("elapsed")) or self.state.seconds,
            "core_seconds": self.state.core_seconds, "budget": _numbers(status.get("budget")),
            "members": len(members), "over": sum(member.over for member in members),
            "failed": sum(member.state == "failed" for member in members),
            "turns": sum(member.turns for member in members),
            "best": None if best is None else {"member": best.name, **_interval(best.score)},
            "slots": list(self._slots()),
        }  # fmt: skip

    def _kind(self) -> str:
        facts = [member.facts for member in self.state.members.values()]
        if any("trial" in each for each in facts):
            return "tuning"
        return "population-based training" if any("values" in each for each in facts) else "sweep"

    def _word(self, index: RunsIndex) -> tuple[str, str]:
        """`running`, `finished`, ...; and why, where there is more to say."""
        if self.status:
            return str(self.status.get("state", "silent"))[:40], ""
        if (reason := self.state.reason) is not None:
            word = reason.split()[0] if reason.startswith(("stopped", "interrupted")) else "finished"
            return word, reason[:500]
        if self._lives:
            return "silent", "it does not answer"
        runs = [self._run(index, member) for member in self.state.members]
        if any(run is not None and run["state"] == "elsewhere" for run in runs):
            return "elsewhere", ""
        return "crashed", "its process is gone: go on with --resume"

    def _slots(self) -> Iterator[dict[str, Any]]:
        """Of a live one: who is in each, where its turn began and where it ends."""
        told, count = _by_name(self.status.get("members")), self.status.get("slots")
        inside = {each.get("slot"): each for each in told.values() if "slot" in each}
        begun = {line["member"]: line.get("until") for line in self.state.lines if line["kind"] == "started"}
        for number in range(count if isinstance(count, int) and 0 <= count <= MEMBERS else 0):
            now = inside.get(number)
            name = None if now is None else str(now["member"])
            known = self.state.members.get(name or "")
            yield {
                "slot": number, "member": name, "steps": now and finite(now.get("steps")),
                "return": now and finite(now.get("return")), "begin": known and known.steps,
                "until": begun.get(name or ""),
            }  # fmt: skip

    # ---------------------------------------------------------------- members

    def members(self, index: RunsIndex) -> list[dict[str, Any]]:
        """A line of the table each."""
        told = _by_name(self.status.get("members"))
        origins = {line["member"]: line for line in expanded(self.state.lines) if line["kind"] == "copied"}
        shown = list(self.state.members.values())[:MEMBERS]
        return [self._member(index, each, told.get(each.name, {}), origins.get(each.name)) for each in shown]

    def _member(self, index: RunsIndex, member: Member, now: dict[str, Any], copied: Line | None) -> dict[str, Any]:
        run = self._run(index, member.name)
        state = member.state if self.status or member.state != "running" else "waiting"
        return {
            "member": member.name, "run": None if run is None else run["run"], "state": state,
            "group": GROUPS.get(state, "done"), "slot": finite(now.get("slot")), "reason": member.reason[:500],
            "steps": finite(now.get("steps")) or member.steps, "goal": run and run["goal"],
            "turns": member.turns, "score": None if member.score is None else _interval(member.score),
            "return": run and run["last"], "settings": settings_of(member), "core_seconds": finite(member.core_seconds),
            "from": None if copied is None else {"member": copied["origin"], "steps": copied["steps"]},
        }  # fmt: skip

    def _run(self, index: RunsIndex, member: str) -> dict[str, Any] | None:
        """The record of its run; None: it has not begun."""
        try:
            return index.record(f"{self.name}/{member}")
        except FileNotFoundError:
            return None

    def scores(self) -> list[dict[str, Any]]:
        """The score of each member at the end of its turns; a copy has those of its donor."""
        return [
            {"member": member.name, "x": [score.steps for score in member.scores],
             "y": [finite(score.mean) for score in member.scores]}
            for member in list(self.state.members.values())[:MEMBERS]
        ]  # fmt: skip

    # ---------------------------------------------------------------- lineage

    def lineage(self) -> dict[str, Any]:
        """Branches, each with the one that it comes from; and what was decided, newest first."""
        branches = [branch for own in branches_of(self.state.lines).values() for branch in own]
        numbers = {id(branch): number for number, branch in enumerate(branches)}
        return {
            "branches": [
                {
                    "member": branch.member, "begin": branch.begin, "end": branch.end, "reason": branch.reason[:300],
                    "parent": None if branch.parent is None else numbers[id(branch.parent)], "fate": branch.fate[:300],
                    "score": finite(branch.scores[-1][1]) if branch.scores else None, "settings": _history(branch),
                }
                for branch in branches
            ],
            "decisions": list(_decisions(self.state.lines))[::-1][:DECISIONS],
        }  # fmt: skip


def _decisions(lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
    """What a copy was changed to belongs to the copy."""
    last: dict[str, Any] | None = None
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


def _history(branch: Branch) -> list[list[Any]]:
    """From which step on, which settings."""
    return [[step, {key: _text(value) for key, value in values.items()}] for step, values in branch.values]


def settings_of(member: Member) -> dict[str, str]:
    """What tells a member from others: those of a space, or the words of a grid."""
    values = member.facts.get("values") or dict(word.partition("=")[::2] for word in member.words)
    return {str(key)[:100]: _text(value) for key, value in values.items()}


def _interval(score: Score | None) -> dict[str, float | None]:
    assert score is not None
    low, high = score.interval if len(score.returns) > 1 else (None, None)
    return {"mean": finite(score.mean), "low": finite(low), "high": finite(high)}


def _mean(member: Member) -> float | None:
    return None if member.score is None else finite(member.score.mean)


def _ask(folder: Path) -> dict[str, Any]:
    try:
        answer = ask(RunFolder(folder), "status", timeout=PATIENCE)
        return answer if len(json.dumps(answer)) < 1 << 22 and "error" not in answer else {}
    except (ShoalError, OSError, ValueError, AssertionError):
        return {}


def _by_name(members: Any) -> dict[str, dict[str, Any]]:
    listed = members if isinstance(members, list) else []
    return {str(each["member"]): each for each in listed if isinstance(each, dict) and "member" in each}


def _numbers(values: Any) -> dict[str, float]:
    found = values.items() if isinstance(values, dict) else ()
    return {str(key): number for key, value in found if (number := finite(value)) is not None}


def _text(value: Any) -> str:
    return (f"{value:.4g}" if isinstance(value, float) else str(value))[:100]
