"""How far a run is: rows in; the nearest stop rule, the time left and the history of returns out. Knows no terminal."""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from shoal.base.duration import format_duration
from shoal.monitoring.league_text import PREFIX
from shoal.monitoring.shares import by_kind
from shoal.monitoring.sinks import EVAL, EVALUATED_AT, Row

if TYPE_CHECKING:
    from shoal.api.experiment import StopConfig

_HISTORY = 256
_RATE_SECONDS, _RATE_STEP = 30.0, 0.5
"""Over which the speed is taken, so that the time left does not jump with every row; and how far apart its marks are."""
_EPISODES = 100
"""Behind a mean return before it may be the best: the first few episodes may be lucky."""
_DROPPED = ("rows/stale", "rows/not_finite", "rows/lost")
RETURN, RECENT = "rollout/ep_rew_mean", "rollout/recent_return"
_POLICY_RETURN = re.compile(r"rollout/([^/]+)/agent_return")
_WON = re.compile(rf"{EVAL}against/(.+)/win_rate")
_POLICY_VERSION = re.compile(r"train/([^/]+)/version")


@dataclass(frozen=True)
class Rule:
    """One stop rule and how near it is."""

    name: str
    fraction: float
    """0: the run has just begun; 1: it ends here."""
    text: str
    """`40,960 of 100,000`."""
    seconds_left: float | None
    """At the present rate; None where nobody can tell."""


class History:
    """One number over the whole run, in at most `_HISTORY` values: beyond that, neighbours are averaged."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self._stride = 1
        self._open: list[float] = []

    def add(self, value: float) -> None:
        """The next one."""
        self._open.append(value)
        if len(self._open) < self._stride:
            return
        self.values.append(sum(self._open) / len(self._open))
        self._open.clear()
        if len(self.values) == _HISTORY:
            self.values = [(a + b) / 2 for a, b in zip(self.values[::2], self.values[1::2], strict=True)]
            self._stride *= 2


class Progress:
    """Takes rows, oldest first. Between two rows the clock goes on."""

    def __init__(self, stop: StopConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.stop = stop
        self.row: Row = {}
        self.evaluated: Row = {}
        """The columns of the newest evaluation."""
        self.learned: dict[str, float] = {}
        """The newest value of every `train/...`: a row holds what was told since the one before, which may be nothing."""
        self.league: Row = {}
        """The newest numbers of a league, all of one moment."""
        self.state = "starting"
        """What the run does now, in a word."""
        self.reason: str | None = None
        """Why it ended; None: it goes on."""
        self.tables: dict[str, list[dict[str, Any]]] = {}
        """Title -> a table that a worker wants people to see."""
        self._histories: dict[str, History] = {}
        self._clock = clock
        self._row_at = clock()
        self._first_return: float | None = None
        self._counts: deque[tuple[float, float, float]] = deque()
        self._shares: dict[str, float] = {}
        self.best: dict[str, float] = {}
        """Of a return's column, the greatest value so far."""
        self.best_evaluated: Row = {}
        """The columns of the best evaluation."""
        self.restarts = 0
        """Of workers, since the first row."""

    def add(self, row: Row) -> None:
        """Take one row."""
        self.row, self._row_at = row, self._clock()
        if EVALUATED_AT in row:
            self.evaluated = {name: value for name, value in row.items() if name.startswith(EVAL)}
            self.best_evaluated = max(self.best_evaluated, self.evaluated, key=_rank)
        self._shares |= {
            name: value for name in row if name.startswith("time/") and (value := self.number(name)) is not None
        }
        self.restarts += int(self.number("rollout/restarts") or 0)
        self._count()
        self.learned |= {
            name: value for name in row if name.startswith("train/") and (value := self.number(name)) is not None
        }
        if any(name.startswith(PREFIX) for name in row):
            self.league = {name: value for name, value in row.items() if name.startswith(PREFIX)}
        for name in (RETURN, *map(policy_return, self.policies)):
            if (value := self.number(name)) is not None:
                self._histories.setdefault(name, History()).add(value)
                if (self.number("rollout/episodes") or 0) >= _EPISODES:
                    self.best[name] = max(self.best.get(name, value), value)
        if self._first_return is None:
            self._first_return = self.number(RETURN)

    def _count(self) -> None:
        """Keep marks of the last seconds, and not one for each of a hundred rows a second."""
        counts, now = self._counts, (self.elapsed, self.number("step") or 0.0, self.number("update") or 0.0)
        if len(counts) > 1 and counts[-1][0] - counts[-2][0] < _RATE_STEP:
            counts.pop()
        counts.append(now)
        while len(counts) > 2 and counts[1][0] < now[0] - _RATE_SECONDS:
            counts.popleft()

    def history(self, name: str) -> list[float]:
        """Of a return, from the run's first row on."""
        return self._histories[name].values if name in self._histories else []

    @property
    def policies(self) -> list[str]:
        """Those that play, where there are several agents: each has a return of its own."""
        return [match[1] for name in self.row if (match := _POLICY_RETURN.fullmatch(name))]

    @property
    def learners(self) -> list[str]:
        """Those that learn, where several do: each has metrics of its own."""
        return [match[1] for name in self.row if (match := _POLICY_VERSION.fullmatch(name))]

    def number(self, key: str) -> float | None:
        """A finite number of the last row."""
        value = self.row.get(key)
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

    def evaluated_text(self) -> str:
        """`143.2 (130.1 to 155.0) by version 40`, of the newest evaluation; empty before the first."""
        if not self.evaluated:
            return ""
        columns = (f"{EVAL}{name}" for name in ("mean_reward", "ci_low", "ci_high"))
        mean, low, high = (return_text(float(self.evaluated[column])) for column in columns)
        return f"{mean} ({low} to {high}) by version {self.evaluated[f'{EVAL}version']:,}"

    def best_text(self) -> str:
        """`best 155.0 by version 30`; empty where the newest evaluation is the best."""
        best = self.best_evaluated
        if not best or best[f"{EVAL}version"] == self.evaluated[f"{EVAL}version"]:
            return ""
        return f"best {return_text(float(best[f'{EVAL}mean_reward']))} by version {best[f'{EVAL}version']:,}"

    @property
    def won(self) -> dict[str, tuple[float, float, float]]:
        """Opponent -> share of games won in the newest evaluation, and its interval."""
        found = {}
        for name in self.evaluated:
            if match := _WON.fullmatch(name):
                low, high = (float(self.evaluated[f"{EVAL}against/{match[1]}/ci_{end}"]) for end in ("low", "high"))
                found[match[1]] = (float(self.evaluated[name]), low, high)
        return found

    @property
    def lag(self) -> int | None:
        """The greatest of all policies, in versions."""
        lags = [value for name, value in self.learned.items() if name.endswith("/lag")]
        return int(max(lags)) if lags else None

    @property
    def dropped(self) -> int:
        """Rows that were lost, too old, or not finite."""
        return int(sum(self.number(name) or 0 for name in _DROPPED))

    def shares(self) -> dict[str, dict[str, float]]:
        """Kind of worker -> state -> share of its time, by the newest row that tells of it; empty where none does."""
        return by_kind(self._shares)

    @property
    def elapsed(self) -> float:
        """Seconds of the run until now."""
        return (self.number("time/elapsed") or 0.0) + self._clock() - self._row_at

    # ---------------------------------------------------------------- stop rules

    def nearest(self) -> Rule:
        """The stop rule with most of its way behind it."""
        return max(self.rules(), key=lambda rule: rule.fraction)

    def rules(self) -> list[Rule]:
        """Every stop rule that is set."""
        stop, seconds = self.stop, self.elapsed
        rules = [self._counted("steps", "step", 1, stop.steps), self._counted("updates", "update", 2, stop.updates)]
        span = f"{format_duration(seconds)} of {format_duration(stop.seconds)}"
        rules.append(Rule("time", min(1.0, seconds / stop.seconds), span, max(0.0, stop.seconds - seconds)))
        rules.append(self._return_rule())
        return [rule for rule in rules if rule is not None]

    def _counted(self, name: str, key: str, column: int, goal: int | None) -> Rule | None:
        if goal is None:
            return None
        now = self.number(key) or 0.0
        rate = self._rate(column)
        left = max(0.0, (goal - now) / rate - (self._clock() - self._row_at)) if rate else None
        return Rule(name, min(1.0, now / goal), f"{now:,.0f} of {goal:,}", left)

    def _rate(self, column: int) -> float | None:
        """Counts per second over the last seconds; over the whole run while there is but one row."""
        if not self._counts:
            return None
        last = self._counts[-1]
        first = self._counts[0] if len(self._counts) > 1 else (0.0, 0.0, 0.0)
        span = last[0] - first[0]
        return (last[column] - first[column]) / span if span > 0 else None

    def _return_rule(self) -> Rule | None:
        goal, now, first = self.stop.return_, self._scored(), self._first_return
        if goal is None:
            return None
        if now is None or first is None:
            return Rule("return", 0.0, f"- of {goal:,.6g}", None)
        fraction = 1.0 if now >= goal else max(0.0, (now - first) / (goal - first)) if first < goal else 0.0
        return Rule("return", fraction, f"{now:,.1f} of {goal:,.6g}", None)

    def _scored(self) -> float | None:
        """What a goal is held against: the newest evaluation where there are any, else the last returns of training."""
        mean = self.evaluated.get(f"{EVAL}mean_reward")
        recent = self.number(RECENT)
        return float(mean) if isinstance(mean, int | float) else self.number(RETURN) if recent is None else recent

    def left_text(self) -> str:
        """`~8 s`; `<8 s` where a goal may end the run before; `-` while nobody can tell."""
        known = [rule.seconds_left for rule in self.rules() if rule.seconds_left is not None]
        if not known or not self.row:
            return "-"
        return f"{'~' if self.stop.return_ is None else '<'}{_roughly(min(known))}"


def _rank(evaluated: Row) -> tuple[float, float]:
    """Scores of a later stage count for more; one that is not finite counts for nothing."""
    mean, stage = evaluated.get(f"{EVAL}mean_reward"), evaluated.get(f"{EVAL}stage", 0)
    tells = isinstance(mean, int | float) and math.isfinite(mean)
    return (float(stage), float(mean)) if tells else (-1.0, 0.0)  # type: ignore[arg-type]


def _roughly(seconds: float) -> str:
    """`8 s`, `3m 05s`, `12m`, `2h 10m`: as exactly as anybody can know."""
    if seconds < 59.5:
        return elapsed_text(seconds, digits=0)
    if seconds < 600:
        return format_duration(5 * round(seconds / 5))
    return f"{seconds / 60:.0f}m" if seconds < 3570 else format_duration(60 * round(seconds / 60))


def policy_return(policy: str) -> str:
    """The column with the mean return of the agents that it played."""
    return f"rollout/{policy}/agent_return"


def elapsed_text(seconds: float, digits: int = 1) -> str:
    """`1.7 s`, from a minute on `3m 05s`."""
    return f"{seconds:.{digits}f} s" if seconds < 59.5 else format_duration(seconds)


def sparkline(values: list[float], width: int, marks: str = "▁▂▃▄▅▆▇█") -> str:
    """`values` from their least to their greatest in at most `width` characters; each stands for equally many."""
    if not values or width <= 0:
        return ""
    bins = min(width, len(values))
    edges = [i * len(values) // bins for i in range(bins + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    scale = (len(marks) - 1) / (high - low) if high > low else 0.0
    return "".join(marks[round((mean - low) * scale)] for mean in means)


def return_text(number: float | None) -> str:
    """`143.2`, `0.25`: games that pay 1 need the second digit."""
    return shown(number, ",.1f" if number is None or abs(number) >= 10 else ".2f")


def shown(number: float | None, form: str) -> str:
    """A number, or `-` where there is none."""
    return "-" if number is None else format(number, form)
