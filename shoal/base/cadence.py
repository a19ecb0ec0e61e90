"""How often something is done: after a span of time (`5m`), of environment steps (`100_000 steps`) or of updates (`50 updates`);
where somebody counts them, of episodes (`20 episodes`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from shoal.base.duration import parse_duration

_COUNT = re.compile(r"(\d[\d_]*|\d+(?:\.\d+)?e\d+)\s*(step|update|episode)s?")
_EXAMPLES = "a time (30s, 5m, 2h), '100_000 steps' or '50 updates'"
_OR_EPISODES = "a time (30s, 5m, 2h), '100_000 steps', '50 updates' or '20 episodes'"


@dataclass(frozen=True)
class Moment:
    """Where a run stands."""

    seconds: float = 0.0
    """By any clock that goes steadily."""
    steps: int = 0
    updates: int = 0


def parse_cadence(value: Any) -> float | str:
    """Seconds, or `100000 steps`, or `50 updates`: one spelling of each. Raises ValueError with the remedy in its text."""
    found = _parse(value, _EXAMPLES)
    if episodes_in(found) is not None:
        raise ValueError(f"nobody counts episodes for this: write {_EXAMPLES}")
    return found


def parse_round(value: Any) -> float | str:
    """The same, or `20 episodes`."""
    return _parse(value, _OR_EPISODES)


def episodes_in(every: float | str) -> int | None:
    """How many, where it is counted in episodes."""
    count, _, unit = str(every).partition(" ")
    return int(count) if unit == "episodes" else None


def _parse(value: Any, examples: str) -> float | str:
    match = _COUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        amount = float(match[1]) if match else parse_duration(value)
    except ValueError:
        raise ValueError(f"write {examples}") from None
    if not amount > 0 or (match and amount % 1):
        raise ValueError(f"should be more than nothing: write {examples}")
    return f"{amount:.0f} {match[2]}s" if match else amount


def is_due(every: float | str, last: Moment, now: Moment) -> bool:
    """Whether it is time again, after it was done at `last`.

    Counts are those of the run, so that a resumed one goes on at the same: every 50 updates means at 50, 100, 150. Of episodes
    nothing is known here.
    """
    if isinstance(every, float):
        return now.seconds - last.seconds >= every
    count, unit = every.split()
    before, after = (last.steps, now.steps) if unit == "steps" else (last.updates, now.updates)
    return after // int(count) > before // int(count)
