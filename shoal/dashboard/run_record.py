"""A run in a line of the table: files in as they change, a record out that JSON can hold."""

from __future__ import annotations

import contextlib
import json
import math
import platform
import re
import time
from typing import Any

from shoal.analysis.run_list import state_of
from shoal.api.experiment import StopConfig
from shoal.base.errors import ShoalError, one_line
from shoal.base.files import read_small
from shoal.dashboard.below import Root, Stamp, is_socket, stamp
from shoal.dashboard.columns import Columns
from shoal.dashboard.settings import nested, read_settings
from shoal.monitoring.jsonl import newest_first
from shoal.monitoring.progress import RETURN, Progress
from shoal.monitoring.run_folder import POPULATION, RunFolder
from shoal.runs.status import ended

FILES = ("config.yaml", "metrics.jsonl", "events.jsonl", "cluster.json")
SPARK = 48
"""Points of a curve in the table."""
ASK, ASK_SILENT = 2.0, 30.0
"""Seconds between two questions to a live run, which has other work; and to one that did not answer."""
FRESH = 120.0
"""Seconds: who wrote since then, on another machine, is alive there."""
_STATES = {
    "finished": "done",
    "ended": "done",
    "stopped": "done",
    "interrupted": "done",
    "crashed": "died",
    "silent": "died",
}
"""What is said of an ended run -> the group it is shown in; every other state is live."""
_ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Exit|Interrupt)\b.*")


class RunRecord:
    """One run. `look` says whether its line changed."""

    def __init__(self, root: Root, name: str) -> None:
        self.name = name
        self.settings: dict[str, Any] = {}
        self.shown: dict[str, Any] = {}
        self._root = root
        self._stamps: dict[str, Stamp | None] = {}
        self.sketch = Columns(whole=1 << 16, samples=SPARK, most=4 * SPARK)
        """Some of its rows: what a small curve needs."""
        self._heard_at = -math.inf
        self._is_member = False
        """Of a population, which has a page of its own."""

    def look(self, now: float) -> bool:
        """Read what changed; FileNotFoundError where the run is gone."""
        with self._root.folder(*self.name.split("/")) as handle:
            stamps = {name: stamp(handle, name) for name in FILES}
            lives = is_socket(handle, "control.sock")
        if stamps["config.yaml"] is None:
            raise FileNotFoundError(self.name)
        same = stamps == self._stamps
        ages = self.shown.get("group") == "live" or lives
        pause = ASK_SILENT if self.shown.get("state") == "silent" else ASK
        if same and not (ages and now - self._heard_at >= pause):
            return False
        if stamps["config.yaml"] != self._stamps.get("config.yaml"):
            self.settings = read_settings(self._root, self.name)
            with self._root.folder(self.name.split("/")[0]) as above:
                self._is_member = stamp(above, POPULATION) is not None
        self._stamps, self._heard_at, before = stamps, now, self.shown
        with self._root.run(self.name) as folder:
            try:
                self.shown = self._record(folder, lives)
            except Exception as error:  # a file that no Shoal wrote: the other runs are shown all the same
                self.shown = self._unreadable(one_line(error))
        return self.shown != before

    def _record(self, folder: RunFolder, lives: bool) -> dict[str, Any]:
        spark, facts = self._sparkline(), self._ended(folder)
        state, why = self._state(folder, facts["reason"], lives)
        group = states_group(state)
        progress = self._progress(folder)
        experiment, _, name = self.name.partition("/")
        return {
            "run": self.name, "name": experiment, "trial": name, "population": self._is_member,
            "state": state, "group": group, "why": why,
            "algorithm": self._algorithm(), "env": _text(self.settings.get("env.id")),
            "seed": _text(self.settings.get("seed")),
            "steps": finite(facts["step"]) or 0, "goal": finite(self.settings.get("stop.steps")),
            "fps": None if progress is None else progress.number("time/fps"),
            "elapsed": finite(facts["elapsed"]),
            **_forecast(progress if group == "live" else None),
            "last": finite(facts["return"]), "score": self._score(folder, facts), "spark": spark,
            "written": self._written() or time.time(),
        }  # fmt: skip

    def _unreadable(self, why: str) -> dict[str, Any]:
        experiment, _, trial = self.name.partition("/")
        empty = dict.fromkeys(("goal", "fps", "elapsed", "progress", "rule", "left", "last", "score"))
        facts = {
            "run": self.name,
            "name": experiment,
            "trial": trial,
            "population": self._is_member,
            "state": "unreadable",
            "group": "died",
            "why": why[:500],
        }
        return {
            **facts,
            **empty,
            "algorithm": "",
            "env": "",
            "seed": "",
            "steps": 0,
            "spark": [],
            "written": time.time(),
        }

    def _ended(self, folder: RunFolder) -> dict[str, Any]:
        try:
            return ended(folder)
        except ShoalError:  # a file that is none of ours
            return dict.fromkeys(("reason", "step", "elapsed", "return", "score"))

    def _state(self, folder: RunFolder, reason: Any, lives: bool) -> tuple[str, str]:
        """`running`, `finished`, ...; and why, where there is more to say."""
        if isinstance(reason, str) and reason:
            state = state_of(folder, reason)
            return (state if state in _STATES else "ended"), reason[:500]
        state = state_of(folder, None) if lives else "crashed"
        if state not in ("crashed", "elsewhere"):
            return state[:40], "it does not answer" if state == "silent" else ""
        return ("elsewhere", "") if self._elsewhere(folder) else ("crashed", why_died(self._root, self.name))

    def _elsewhere(self, folder: RunFolder) -> bool:
        """A machine that shares this folder trains it: it wrote a moment ago, and is not this one."""
        if time.time() - (self._written() or 0.0) > FRESH:
            return False
        on_ray = self._stamps["cluster.json"] is not None
        return (on_ray or _machine(folder) not in ("", platform.node())) and not folder.locked

    def _written(self) -> float | None:
        stamps = [each[2] for each in self._stamps.values() if each is not None]
        return max(stamps) / 1e9 if stamps else None

    def _algorithm(self) -> str:
        own = [value for key, value in self.settings.items() if re.fullmatch(r"policies\.[^.]+\.algorithm\.name", key)]
        return ", ".join(dict.fromkeys(map(_text, own))) or _text(self.settings.get("algorithm.name"))

    def _progress(self, folder: RunFolder) -> Progress | None:
        """Of the newest rows."""
        stop = stop_rules(self.settings)
        if stop is None:
            return None
        progress = Progress(stop)
        newest = []
        with contextlib.suppress(ShoalError):
            for row in newest_first(folder.metrics, block=16384):
                newest.append(row)
                if len(newest) == 20:
                    break
        first = self.sketch.table([0], ["step", "update", RETURN, "time/elapsed"]) if len(self.sketch) else {}
        rows = [{name: column[0] for name, column in first.items() if column[0] is not None}, *reversed(newest)]
        for row in rows:
            progress.add({key: value for key, value in row.items() if finite(value) is not None})
        return progress

    def _score(self, folder: RunFolder, facts: dict[str, Any]) -> dict[str, float | None] | None:
        """Of the newest evaluation, with its interval; what confirmed the goal has its spread."""
        mean = finite(facts["score"])
        if mean is None:
            return None
        with contextlib.suppress(ShoalError):
            for event in newest_first(folder.events):
                if event.get("kind") == "evaluation":
                    return {"mean": mean, "low": finite(event.get("ci_low")), "high": finite(event.get("ci_high"))}
        spread, episodes = self.sketch.last("eval/std_reward"), finite(self.settings.get("stop.episodes"))
        reach = None if spread is None or not episodes or episodes < 1 else 1.96 * spread / math.sqrt(episodes)
        low, high = (None, None) if reach is None else (mean - reach, mean + reach)
        return {"mean": mean, "low": low, "high": high}

    def _sparkline(self) -> list[float | None]:
        with contextlib.suppress(FileNotFoundError), self._root.file(*self.name.split("/"), "metrics.jsonl") as file:
            self.sketch.read(file)
        found = self.sketch.curves([RETURN], SPARK)["y"].get(RETURN)
        return [] if found is None else [value if value is None else round(value, 4) for value in found["mean"]]


def stop_rules(settings: dict[str, Any]) -> StopConfig | None:
    """Those of a run; None where they are none of Shoal's."""
    try:
        return StopConfig.model_validate(nested(settings, "stop"))
    except ValueError:
        return None


def _forecast(progress: Progress | None) -> dict[str, Any]:
    """Of a live run: the nearest stop rule, how near it is, and how long that takes at least."""
    if progress is None or not progress.row:
        return {"progress": None, "rule": None, "left": None}
    rules = progress.rules()
    left = min((rule.seconds_left for rule in rules if rule.seconds_left is not None), default=None)
    nearest = max(rules, key=lambda rule: rule.fraction)
    return {"progress": nearest.fraction, "rule": nearest.name, "left": left}


def why_died(root: Root, name: str) -> str:
    """The last error in the log of whoever ran the workers; a process that was killed leaves none."""
    for launcher in ("local", "inline", "ray"):
        with contextlib.suppress(OSError), root.file(*name.split("/"), "logs", f"{launcher}.log") as log:
            log.seek(max(0, log.seek(0, 2) - 65536))
            lines = log.read(65536).decode(errors="replace").splitlines()
            found = next((line for line in reversed(lines) if _ERROR.match(line)), "")
            if found:
                return found.partition(": ")[2][:500] or found[:500]
    return "its process is gone, and left no word"


def _machine(folder: RunFolder) -> str:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return str(json.loads(read_small(folder.provenance)).get("machine", {}).get("host", ""))
    return ""


def states_group(state: str) -> str:
    """`live`, `done` or `died`."""
    return _STATES.get(state, "live")


def finite(value: Any) -> float | None:
    """A number that JSON can hold; None: it is none."""
    numbers = (int, float)
    return float(value) if type(value) in numbers and abs(value) < 1e300 and math.isfinite(value) else None


def _text(value: Any) -> str:
    return "" if value is None else str(value)[:200]
