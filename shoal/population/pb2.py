"""What a bandit has to know of a population, from its journal: which settings gained how much, and when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from shoal.population import space
from shoal.population.bandit import Array, Proposal, Seen, propose
from shoal.population.journal import Line

NEWEST = 128
"""Intervals that are looked at: older ones say little, and each costs."""


class Interval(NamedTuple):
    """A member from one comparison to the next."""

    number: int
    """Of the comparison at its end."""
    values: dict[str, Any]
    """Its settings."""
    gain: float
    """Of its score."""


def intervals(lines: Iterable[Line]) -> list[Interval]:
    """All whose beginning and end have a score, oldest first. Who took over something begins with the score of its donor."""
    values: dict[str, dict[str, Any]] = {}
    scores: dict[str, float | None] = {}
    found, number = [], 0
    for line in lines:
        name = line.get("member", "")
        if line["kind"] == "member":
            values[name] = line["values"]
        elif line["kind"] == "turn" and line["score"] is not None:
            before, now = scores.get(name), line["score"]["mean"]
            if before is not None and now is not None:
                found.append(Interval(number, values[name], now - before))
            scores[name] = now
        elif line["kind"] == "compared":
            number += 1
            for decision in line["decisions"]:
                if decision["kind"] == "copied":
                    scores[decision["member"]] = decision["best"]
                elif decision["kind"] == "changed":
                    values[decision["member"]] = decision["values"]
    return found


def next_values(
    ranges: space.Space, known: list[Interval], pending: list[dict[str, Any]], number: int, random: np.random.Generator
) -> tuple[dict[str, Any], str]:
    """Settings to try in the interval after comparison `number`, and why. `pending`: what others try in it."""
    if not known:
        return space.draw(
            ranges, random
        ), "drawn from the space: no member has gained anything yet that could be compared"
    latest = known[-NEWEST:]
    seen = Seen(
        np.array([float(each.number) for each in latest]),
        np.stack([_place(ranges, each.values) for each in latest]),
        np.array([each.gain for each in latest]),
    )
    others = np.array([_place(ranges, values) for values in pending]).reshape(-1, len(ranges))
    found: Proposal = propose(seen, others, float(number + 1), random)
    values = {
        key: space.from_unit(range_, float(at)) for (key, range_), at in zip(ranges.items(), found.place, strict=True)
    }
    return values, f"the bandit expects {found.mean:+,.2f} ± {found.deviation:,.2f} by {len(latest)} intervals"


def _place(ranges: space.Space, values: dict[str, Any]) -> Array:
    return np.array([space.to_unit(range_, values[key]) for key, range_ in ranges.items()])
