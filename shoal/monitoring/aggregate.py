"""From reports to rows: metrics merged by their kind, finished episodes averaged over a window."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from shoal.api.env import Episode
from shoal.api.metric import Metric, merge_into
from shoal.api.worker import Report
from shoal.monitoring.sinks import Row

WINDOW = 100


class _Finished(NamedTuple):
    """What is remembered of an episode."""

    team_return: float
    """Over all groups and agents; of a single agent, its return."""
    length: int
    group_returns: dict[str, float]
    """Group -> mean over its agents; empty where there is but one agent."""
    metrics: dict[str, float]


class Aggregator:
    """Takes reports as they come, gives a row when asked. Episode means are over the last `WINDOW` finished ones."""

    def __init__(self) -> None:
        self.episodes = 0
        """Finished since the run began."""
        self._metrics: dict[str, Metric] = {}
        self._window: deque[_Finished] = deque(maxlen=WINDOW)
        self._recent: deque[float] = deque(maxlen=WINDOW)

    def add(self, report: Report) -> None:
        """Take in one report."""
        merge_into(self._metrics, report.metrics)
        for episode in report.episodes:
            finished = _finish(episode)
            self._window.append(finished)
            self._recent.append(finished.team_return)
        self.episodes += len(report.episodes)

    def recent_return(self, n: int = 20) -> float | None:
        """Mean return of the last `n` episodes since `forget_recent`; None while there are fewer."""
        assert 0 < n <= WINDOW, f"only {WINDOW} returns are kept"
        if len(self._recent) < n:
            return None
        return _mean(list(self._recent)[-n:])

    def mean_return(self) -> float | None:
        """Of the window, as the rows show it; None before the first episode ended."""
        return _mean([episode.team_return for episode in self._window]) if self._window else None

    def forget_recent(self) -> None:
        """Let `recent_return` start anew, so that it speaks of the episodes to come only."""
        self._recent.clear()

    def row(self, step: int, update: int, extra: Mapping[str, float | int | str] | None = None) -> Row:
        """Everything since the last row. `extra` wins over what has the same name."""
        metrics = {name: metric.value for name, metric in self._metrics.items()}
        self._metrics.clear()
        return {"step": step, "update": update, **self._rollout(), **metrics, **(extra or {})}

    def _rollout(self) -> Row:
        row: Row = {"rollout/episodes": self.episodes}
        if not self._window:
            return row
        row["rollout/ep_rew_mean"] = _mean([episode.team_return for episode in self._window])
        row["rollout/ep_len_mean"] = _mean([episode.length for episode in self._window])
        for group, mean in _means_by_name(episode.group_returns for episode in self._window).items():
            row[f"rollout/{group}/ep_rew_mean"] = mean
        for name, mean in _means_by_name(episode.metrics for episode in self._window).items():
            row[f"rollout/metrics/{name}"] = mean
        return row

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs to go on as the unbroken one would; fits into a checkpoint's `meta`."""
        return {
            "episodes": self.episodes,
            "window": [list(item) for item in self._window],
            "recent": list(self._recent),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.episodes = state["episodes"]
        self._window = deque((_Finished(*item) for item in state["window"]), maxlen=WINDOW)
        self._recent = deque(state["recent"], maxlen=WINDOW)


def _finish(episode: Episode) -> _Finished:
    agents = sum(returns.size for returns in episode.returns.values())
    team_return = sum(float(returns.sum()) for returns in episode.returns.values())
    by_group = {group: float(returns.mean()) for group, returns in episode.returns.items()} if agents > 1 else {}
    metrics = {name: float(value) for name, value in episode.metrics.items()}
    return _Finished(team_return, int(episode.length), by_group, metrics)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _means_by_name(items: Iterable[dict[str, float]]) -> dict[str, float]:
    """Name -> mean over the items that have it."""
    columns: dict[str, list[float]] = {}
    for item in items:
        for name, value in item.items():
            columns.setdefault(name, []).append(value)
    return {name: _mean(values) for name, values in columns.items()}
