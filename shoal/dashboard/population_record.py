"""A population for its page: its journal in as it grows, and what the live one says of itself; documents for the page out."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal.base.errors import ShoalError, one_line
from shoal.dashboard.below import Root, Stamp, is_socket, stamp
from shoal.dashboard.population_facts import MEMBERS, Document, PopulationFacts
from shoal.dashboard.run_record import finite, states_group
from shoal.dashboard.runs_index import RunsIndex
from shoal.monitoring.run_folder import POPULATION, RunFolder
from shoal.population.journal import Journal
from shoal.population.state import State
from shoal.runs.panel import ask

BETWEEN = 0.9
"""Seconds between two looks, however many ask."""
SHARE = 0.05
"""Of the time, at most, is spent on reading a journal again that grows."""
PATIENCE = 1.0
"""Seconds for a population to answer."""
GROUPS = {"running": "live", "waiting": "waiting", "paused": "paused", "failed": "died"}
"""State of a member -> how it is coloured; whatever else has ended."""


class PopulationRecord:
    """One population, shared by all pages that show it."""

    def __init__(self, root: Root, name: str) -> None:
        self.name, self.lock = name, threading.RLock()
        self.facts = PopulationFacts.of(State())
        self.number = 0
        """Of the last change of its journal."""
        self._status: Document = {}
        """What the live one says of itself; empty where nobody answers."""
        self._told: dict[str, Document] = {}
        """Member -> what was said of it."""
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
                self._status = _ask(folder) if self._lives else {}
                self._told = _by_name(self._status.get("members"))

    def _read(self, folder: Path) -> None:
        try:
            self.facts = PopulationFacts.of(State(Journal(folder / "journal.jsonl").read()))
            self._trouble = ""
        except Exception as error:  # a file that no Shoal wrote: the page says so, and the others go on
            self._trouble = one_line(error).replace(str(folder), self.name)[:500]
        self.number += 1

    # ---------------------------------------------------------------- for the page

    def head(self, index: RunsIndex) -> Document:
        """The whole in a few numbers, and who is in which slot."""
        (state, why), head, status = self._word(index), self.facts.head, self._status
        return {
            **head, "population": self.name, "state": state, "group": states_group(state), "why": why,
            "trouble": self._trouble, "steps": finite(status.get("steps")) or head["steps"],
            "elapsed": finite(status.get("elapsed")) or head["elapsed"], "budget": _numbers(status.get("budget")),
            "slots": list(self._slots()),
        }  # fmt: skip

    def _word(self, index: RunsIndex) -> tuple[str, str]:
        """`running`, `finished`, ...; and why, where there is more to say."""
        if self._status:
            return str(self._status.get("state", "silent"))[:40], ""
        if (reason := self.facts.reason) is not None:
            word = reason.split()[0] if reason.startswith(("stopped", "interrupted")) else "finished"
            return word, reason
        if self._lives:
            return "silent", "it does not answer"
        runs = [self._run(index, each["member"]) for each in self.facts.members]
        if any(run is not None and run["state"] == "elsewhere" for run in runs):
            return "elsewhere", ""
        return "crashed", "its process is gone: go on with --resume"

    def _slots(self) -> Iterator[Document]:
        """Of a live one: who is in each, where its turn began and where it ends."""
        count = finite(self._status.get("slots")) or 0
        inside = {finite(each.get("slot")): name for name, each in self._told.items() if "slot" in each}
        began = {each["member"]: each["steps"] for each in self.facts.members}
        for number in range(int(min(count, MEMBERS))):
            name = inside.get(number)
            now = self._told[name] if name is not None else {}
            yield {
                "slot": number, "member": name, "steps": finite(now.get("steps")), "return": finite(now.get("return")),
                "begin": began.get(name), "until": self.facts.until.get(name or ""),
            }  # fmt: skip

    def members(self, index: RunsIndex) -> list[Document]:
        """A line of the table each."""
        return [self._member(index, each) for each in self.facts.members]

    def _member(self, index: RunsIndex, known: Document) -> Document:
        run, now = self._run(index, known["member"]), self._told.get(known["member"], {})
        state = known["state"] if self._status or known["state"] != "running" else "waiting"
        return {
            **known, "run": run and run["run"], "state": state, "group": GROUPS.get(state, "done"),
            "slot": finite(now.get("slot")), "steps": finite(now.get("steps")) or known["steps"],
            "goal": run and run["goal"], "return": run and run["last"],
        }  # fmt: skip

    def _run(self, index: RunsIndex, member: str) -> Document | None:
        """The record of its run; None: it has not begun."""
        try:
            return index.record(f"{self.name}/{member}")
        except FileNotFoundError:
            return None


def _ask(folder: Path) -> Document:
    try:
        answer = ask(RunFolder(folder), "status", timeout=PATIENCE)
        return answer if len(json.dumps(answer)) < 1 << 22 and "error" not in answer else {}
    except (ShoalError, OSError, ValueError, AssertionError):
        return {}


def _by_name(members: Any) -> dict[str, Document]:
    listed = members if isinstance(members, list) else []
    return {str(each["member"]): each for each in listed if isinstance(each, dict) and "member" in each}


def _numbers(values: Any) -> dict[str, float]:
    found = values.items() if isinstance(values, dict) else ()
    return {str(key): number for key, value in found if (number := finite(value)) is not None}
