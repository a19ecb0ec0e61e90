"""From messages to rows: metrics merged by their kind, finished episodes averaged over a window."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from shoal.api.env import Episode
from shoal.api.metric import METRICS, Metric, merge_into
from shoal.monitoring.sinks import Row

WINDOW = 100


class _Finished(NamedTuple):
    """What is remembered of an episode."""

    learned_return: float
    """Over all agents that learn; of a single agent, its return."""
    length: int
    agents: dict[str, list[float]]
    """Policy -> returns of the agents it played; empty where there is but one agent."""
    metrics: dict[str, float]


class Aggregator:
    """Takes what workers say as it comes, gives a row when asked. Episode means are over the last `WINDOW` finished ones."""

    def __init__(self, learning: list[str] | None = None, game_return: Literal["sum", "mean"] = "sum") -> None:
        self._learning, self._game_return = learning, game_return
        self.episodes = 0
        """Finished since the run began."""
        self._metrics: dict[str, Metric] = {}
        self._window: deque[_Finished] = deque(maxlen=WINDOW)
        self._recent: deque[float] = deque(maxlen=WINDOW)

    def add(self, metrics: Mapping[str, Metric], episodes: Sequence[Episode] = ()) -> None:
        """Take in what a worker said."""
        merge_into(self._metrics, metrics)
        for episode in episodes:
            finished = self._finish(episode)
            self._window.append(finished)
            self._recent.append(finished.learned_return)
            merge_into(self._metrics, episode.told)
        self.episodes += len(episodes)

    def recent_return(self, n: int = 20) -> float | None:
        """Mean return of the last `n` episodes since `forget_recent`; None while there are fewer."""
        assert 0 < n <= WINDOW, f"only {WINDOW} returns are kept"
        if len(self._recent) < n:
            return None
        return _mean(list(self._recent)[-n:])

    def mean_return(self) -> float | None:
        """Of the window, as the rows show it; None before the first episode ended."""
        return _mean([episode.learned_return for episode in self._window]) if self._window else None

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
        row["rollout/ep_rew_mean"] = _mean([episode.learned_return for episode in self._window])
        row["rollout/ep_len_mean"] = _mean([episode.length for episode in self._window])
        row |= self._many_agents()
        for name, mean in _means_by_name(episode.metrics for episode in self._window).items():
            row[f"rollout/metrics/{name}"] = mean
        return row

    def _many_agents(self) -> Row:
        """Returns on every scale there is, each under a name of its own."""
        games = [np.concatenate(list(episode.agents.values())) for episode in self._window if episode.agents]
        if not games:
            return {}
        team, agent = _mean([float(game.sum()) for game in games]), _mean([float(game.mean()) for game in games])
        row: Row = {"rollout/team_return": team, "rollout/agent_return": agent}
        row["rollout/game_return"] = team if self._game_return == "sum" else agent
        by_policy = ({name: _mean(own) for name, own in e.agents.items() if own} for e in self._window)
        for name, mean in _means_by_name(by_policy).items():
            row[f"rollout/{name}/agent_return"] = mean
        return row

    def _finish(self, episode: Episode) -> _Finished:
        played = episode.played or episode.returns
        learning = played if self._learning is None else [name for name in self._learning if name in played]
        total = sum(float(played[name].sum()) for name in learning)
        several = sum(returns.size for returns in played.values()) > 1
        agents = {name: returns.tolist() for name, returns in played.items()} if several else {}
        metrics = {name: float(value) for name, value in episode.metrics.items()}
        return _Finished(total, int(episode.length), agents, metrics)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs to go on as the unbroken one would; fits into a checkpoint's `meta`."""
        return {
            "episodes": self.episodes,
            "window": [list(item) for item in self._window],
            "recent": list(self._recent),
            "metrics": {
                name: [type(metric).__name__, *vars(metric).values()] for name, metric in self._metrics.items()
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.episodes = state["episodes"]
        self._window = deque((_Finished(*item) for item in state["window"]), maxlen=WINDOW)
        self._recent = deque(state["recent"], maxlen=WINDOW)
        self._metrics = {name: METRICS[kind](*values) for name, (kind, *values) in state.get("metrics", {}).items()}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _means_by_name(items: Iterable[dict[str, float]]) -> dict[str, float]:
    """Name -> mean over the items that have it."""
    columns: dict[str, list[float]] = {}
    for item in items:
        for name, value in item.items():
            columns.setdefault(name, []).append(value)
    return {name: _mean(values) for name, values in columns.items()}
