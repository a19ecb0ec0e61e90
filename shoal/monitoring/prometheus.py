"""A live run for Prometheus: rows and the controller's counts in, a page of text over HTTP out, from a thread of its own.

Names are those of `metrics.jsonl` with base units. A scrape reads what is there and asks nobody, so it never holds the run up; nor
does a client that connects and says nothing.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from shoal.base.errors import InputError
from shoal.monitoring.metric_families import counter, gauge
from shoal.monitoring.progress import RETURN, policy_return
from shoal.monitoring.run_counts import RunCounts
from shoal.monitoring.shares import busy, by_kind
from shoal.monitoring.sinks import EVAL, Row
from shoal.monitoring.usage import UsageMeter

if TYPE_CHECKING:
    from prometheus_client import Metric

    from shoal.api.experiment import PrometheusConfig

_POLL = 0.1
"""Seconds that the end of a run may wait for the server."""
DROPPED = ("stale", "not_finite", "lost", "surplus", "forgotten")
"""Of the ledger of rows: those that nobody learns from."""


@dataclass(frozen=True)
class Standing:
    """Where a run stands, at the moment of a scrape."""

    steps: int
    updates: int
    versions: Mapping[str, int]
    """Of each policy that learns."""
    paused: bool
    counts: RunCounts
    best: float | None
    """The best score of an evaluation."""


@dataclass(frozen=True)
class Watched:
    """What is known of a run before it begins."""

    folder: Path
    info: Mapping[str, str]
    """Labels of `shoal_run_info`."""
    policies: tuple[str, ...]
    """All that play."""
    kinds: tuple[str, ...]
    """Of its workers."""
    capacity: int
    """Rows that fit into all sample rings."""
    standing: Callable[[], Standing]
    usage: UsageMeter = field(default_factory=UsageMeter)


class Collector(Protocol):
    """Makes a page when somebody asks."""

    def describe(self) -> Iterable[Metric]:
        """What it will be made of; nothing, where that is not known before."""

    def collect(self) -> Iterable[Metric]:
        """All of it."""


def check(config: PrometheusConfig | None) -> None:
    """That it can be served, before anything is written."""
    if config is None:
        return
    if importlib.util.find_spec("prometheus_client") is None:
        raise InputError("log.prometheus needs prometheus-client: pip install 'shoal[prometheus]'")
    from shoal.monitoring.metrics_server import listen

    listen(config).server_close()


class MetricsPage:
    """What a collector makes, shown to whoever asks."""

    def __init__(self, config: PrometheusConfig, collector: Collector) -> None:
        from prometheus_client import CollectorRegistry, make_wsgi_app

        from shoal.monitoring.metrics_server import listen, reachable

        registry = CollectorRegistry(auto_describe=False)  # without what Python itself would tell
        registry.register(collector)
        self._server = listen(config)
        self._server.set_app(make_wsgi_app(registry))
        self.target = f"{reachable(config.address)}:{self._server.server_port}"
        """Whom Prometheus is to ask."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL,), name="prometheus", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Of the page."""
        return f"http://{self.target}/metrics"

    def close(self) -> None:
        """Hang up. Clients that are being served, or stuck, are not waited for."""
        self._server.shutdown()
        self._server.server_close()


class Exporter(MetricsPage):
    """A sink that shows the newest of everything."""

    def __init__(self, config: PrometheusConfig, watched: Watched) -> None:
        self._collector = RunCollector(watched)
        super().__init__(config, self._collector)

    def write(self, row: Row) -> None:
        """Take the row."""
        self._collector.write(row)


# ---------------------------------------------------------------- the numbers


LEAGUE = {
    "rating": "Elo of a player.",
    "rating_error": "Half of the 95 % interval of that.",
    "win_rate": "Share of its games that a player won, over the members that it meets.",
}
"""Of each player of a league."""


class RunCollector:
    """Makes the page. Rows come from the run's thread and are replaced, never changed: a scrape sees one or the next."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._row: Row = {}
        self._lock = threading.Lock()

    def write(self, row: Row) -> None:
        """A row holds what was told since the one before; what it does not hold is as it was."""
        self._row = self._row | row

    def describe(self) -> Iterable[Metric]:
        """Nothing is made before somebody asks."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All of it."""
        yield from self._progress(self._watched.standing())
        yield from self._rows(self._row)
        yield from self._learning(self._row)
        yield from self._league(self._row)
        yield from self._machine()

    def _progress(self, now: Standing) -> Iterator[Metric]:
        counts, zeros = now.counts, dict.fromkeys(self._watched.kinds, 0)
        yield gauge("run_info", "The run; always 1.", {tuple(self._watched.info.values()): 1}, *self._watched.info)
        yield gauge("run_paused", "1 while a person lets the run wait.", float(now.paused))
        yield counter("env_steps", "Environment steps, over all copies, behind the newest version.", now.steps)
        yield counter("updates", "Versions made, of the policy that is furthest.", now.updates)
        yield gauge("policy_version", "The newest version of each policy that learns.", now.versions, "policy")
        yield _update_seconds(counts)
        yield gauge("last_update_timestamp_seconds", "When the newest version was made.", counts.updated_at)
        yield gauge("checkpoint_timestamp_seconds", "When the newest checkpoint was written.", counts.saved_at)
        restarts = {**zeros, **counts.restarts}
        yield counter("worker_restarts", "Workers that died and were started again.", restarts, "kind")
        yield counter("not_finite_batches", "Batches dropped for a NaN or an infinity.", counts.not_finite_batches)
        if now.best is not None:
            yield gauge("evaluation_best_score", "The best score of an evaluation so far.", now.best)

    def _rows(self, row: Row) -> Iterator[Metric]:
        dropped = {name: row.get(f"rows/{name}", 0) for name in DROPPED}
        yield counter("rows_dropped", "Rows that nobody learns from, by what became of them.", dropped, "reason")
        yield counter("rows_produced", "Rows that actors handed over.", row.get("rows/produced", 0))
        fill = float(row.get("rows/in_flight", 0)) / self._watched.capacity
        yield gauge("ring_fill_ratio", "Share of the sample rings that holds rows on their way.", fill)
        if "rows/held" in row:
            yield gauge("replay_rows", "Rows that can be drawn from replay.", row["rows/held"])
        waited = {kind: 1.0 - busy(states) for kind, states in by_kind(row).items()}
        yield gauge("worker_wait_ratio", "Share of its time that a kind of worker waited.", waited, "kind")

    def _learning(self, row: Row) -> Iterator[Metric]:
        policies = self._watched.policies
        returns = {policy: row.get(policy_return(policy)) for policy in policies}
        if len(policies) == 1 and returns[policies[0]] is None:  # one agent: its return is the whole return
            returns[policies[0]] = row.get(RETURN)
        lags = {policy: row.get(f"train/{policy}/lag", row.get("train/lag")) for policy in policies}
        yield counter("episodes", "Training episodes that ended.", row.get("rollout/episodes", 0))
        about = "Mean return of the agents that a policy plays, over the last 100 training episodes."
        yield gauge("episode_return", about, returns, "policy")
        yield gauge("episode_length_steps", "Mean length of those episodes.", row.get("rollout/ep_len_mean"))
        yield gauge("policy_lag_versions", "Greatest age of a decision that was learned from.", lags, "policy")
        yield gauge("evaluation_score", "Mean return of the newest evaluation.", row.get(f"{EVAL}mean_reward"))
        for end in ("low", "high"):
            about = f"The {end} end of the 95 % interval of that mean."
            yield gauge(f"evaluation_score_{end}", about, row.get(f"{EVAL}ci_{end}"))
        at = f"{EVAL}against/"
        wins = {n.removeprefix(at).removesuffix("/win_rate"): v for n, v in row.items() if n.endswith("/win_rate")}
        yield gauge("evaluation_win_ratio", "Share of games won against an opponent.", wins, "opponent")

    def _league(self, row: Row) -> Iterator[Metric]:
        if "league/members" not in row:
            return
        yield gauge("league_members", "Members of the league, frozen ones included.", row["league/members"])
        yield counter("league_matches", "Matches that were counted.", row["league/matches"])
        yield gauge("league_forgotten", "Members that a player beat before, and no longer.", row["league/forgotten"])
        for name, about in LEAGUE.items():
            own = {player: row.get(f"league/{player}/{name}") for player in self._watched.policies}
            only = row.get(f"league/{name}")  # where there is one player, it has no name in a row
            yield gauge(f"league_{name}", about, own if only is None else {self._watched.policies[0]: only}, "player")

    def _machine(self) -> Iterator[Metric]:
        with self._lock:  # two may ask at once
            usage = self._watched.usage.usage()
        about = "of the controller's process and its children."
        yield gauge("memory_bytes", f"Memory {about}", usage and usage.nbytes)
        yield gauge("cpu_cores", f"Cores in use, {about}", usage and usage.cores)
        with contextlib.suppress(OSError):  # the folder may be out of reach
            yield from self._disk()

    def _disk(self) -> Iterator[Metric]:
        disk = shutil.disk_usage(self._watched.folder)
        yield gauge("disk_free_bytes", "Free where the run folder is.", disk.free)
        yield gauge("disk_size_bytes", "Size of the file system with the run folder.", disk.total)


def _update_seconds(counts: RunCounts) -> Metric:
    from prometheus_client.core import SummaryMetricFamily

    family = SummaryMetricFamily("shoal_update_seconds", "Seconds that trainers took for a version.", labels=["policy"])
    for policy, own in counts.updates.items():
        family.add_metric([policy], own.count, own.seconds)
    return family
