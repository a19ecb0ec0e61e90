"""The workers of a run and what flows between them: its status or its rows in, boxes and arrows as data out."""

from __future__ import annotations

import math
import re
from typing import Any

from shoal.dashboard.columns import Columns
from shoal.monitoring.bottleneck import bottleneck
from shoal.monitoring.shares import STATES, by_kind

_SENTENCE = re.compile(r"^bottleneck: ")
SHOWN = 64
"""Workers of a kind that are named."""


def pipeline(
    status: dict[str, Any], columns: Columns, settings: dict[str, Any], events: list[dict[str, Any]]
) -> dict[str, Any]:
    """Kinds of workers with their shares, what lies between them, and the sentence that names the bottleneck."""
    shares = _shares(columns)
    workers = _workers(status, shares, settings)
    max_lag = _count(settings.get("placement.max_lag")) or 0
    one_process = len({worker.get("pid") for worker in _listed(status)}) == 1
    said = next((event["text"] for event in events if _SENTENCE.match(str(event.get("text", "")))), None)
    if status or said is None:
        said = bottleneck(shares, max_lag=max_lag, one_process=one_process) or said
    return {
        "workers": workers, "flow": _flow(status, columns, settings, max_lag),
        "sentence": None if said is None else str(said)[:500],
    }  # fmt: skip


def _shares(columns: Columns) -> dict[str, dict[str, float]]:
    """Kind -> state -> share, over the rows that are known."""
    names = (name for name in columns.values if name.startswith("time/"))
    found = by_kind({name: mean for name in names if (mean := columns.mean(name)) is not None})
    return {
        kind: {state: min(1.0, max(0.0, share)) for state, share in states.items()} for kind, states in found.items()
    }


def _workers(
    status: dict[str, Any], shares: dict[str, dict[str, float]], settings: dict[str, Any]
) -> list[dict[str, Any]]:
    """One entry per kind, in the order in which experience flows; a live run names each of its workers."""
    listed = _listed(status)
    kinds = list(
        dict.fromkeys([*("actor", "policy", "buffer", "trainer"), *shares, *(each["kind"] for each in listed)])
    )
    found = []
    for kind in kinds:
        own = [each for each in listed if each["kind"] == kind]
        if own or kind in shares:
            found.append({
                "kind": kind, "count": len(own) or _planned(kind, settings), "shares": shares.get(kind, {}),
                "restarts": sum(_count(each.get("restarts")) or 0 for each in own),
                "names": [_named(each) for each in own[:SHOWN]],
            })  # fmt: skip
    return found


def _listed(status: dict[str, Any]) -> list[dict[str, Any]]:
    workers = status.get("workers")
    if not isinstance(workers, list):
        return []
    return [each for each in workers if isinstance(each, dict) and isinstance(each.get("kind"), str)]


def _named(worker: dict[str, Any]) -> dict[str, Any]:
    shares = {state: value for state in STATES if (value := _finite(worker.get(state))) is not None}
    facts = {
        key: str(worker[key])[:100]
        for key in ("name", "pid", "state", "restarts", "node")
        if worker.get(key) is not None
    }
    return {**facts, "shares": shares}


def _planned(kind: str, settings: dict[str, Any]) -> int:
    keys = {"actor": "actors", "policy": "policy_workers", "trainer": "trainers", "buffer": "buffers"}
    planned = settings.get(f"placement.{keys[kind]}") if kind in keys else None
    return max(1, _count(planned) or _count(settings.get("placement.actors.min")) or 1)


def _flow(status: dict[str, Any], columns: Columns, settings: dict[str, Any], max_lag: int) -> dict[str, Any]:
    """Rows between actors and trainers, and what is kept for replay, each against the room there is."""
    rows = status.get("rows") if isinstance(status.get("rows"), dict) else {}
    assert isinstance(rows, dict)
    now = {name: _finite(rows.get(name)) if name in rows else columns.last(f"rows/{name}")
           for name in ("produced", "trained", "inserted", "in_flight", "stale", "lost", "not_finite", "surplus")}  # fmt: skip
    copies, unroll = _count(settings.get("env.num_envs")), _count(settings.get("algorithm.unroll"))
    replay = status.get("replay") if isinstance(status.get("replay"), dict) else {}
    assert isinstance(replay, dict)
    return {
        "rows": now, "lag": columns.last("train/lag"), "max_lag": max_lag,
        "room": copies * unroll * (max_lag + 1) if copies and unroll else None,
        "held": _finite(replay.get("held")) or columns.last("rows/held"),
        "kept": _count(settings.get("algorithm.capacity")),
        "fps": columns.last("time/fps"),
    }  # fmt: skip


def _finite(value: Any) -> float | None:
    numbers = (int, float)
    return float(value) if type(value) in numbers and abs(value) < 1e300 and math.isfinite(value) else None


def _count(value: Any) -> int | None:
    found = _finite(value)
    return None if found is None else int(found)
