"""What Prometheus is told of a population, beside what its members tell of themselves."""

from __future__ import annotations

import time
from collections import Counter
from importlib.metadata import version

from shoal.api.experiment import PrometheusConfig
from shoal.monitoring.prometheus import MetricsPage
from shoal.monitoring.prometheus_population import PopulationCollector, PopulationStanding
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.service_discovery import Announcement
from shoal.population.journal import expanded
from shoal.population.state import OVER, State

BEAT = 1.0
"""Seconds between two countings."""
STATES = ("waiting", "running", "paused", *OVER)


class PopulationExporter:
    """Serves the numbers of a population, and is found in `prometheus.json` of the runs' folder meanwhile."""

    def __init__(self, home: RunFolder, name: str, config: PrometheusConfig, slots: int) -> None:
        self._slots, self._beat = slots, 0.0
        info = {"population": name, "version": version("shoal")}
        self._collector = PopulationCollector(info, standing(State(), slots, busy=0, steps=0, paused=False))
        self._page = MetricsPage(config, self._collector)
        try:
            self._announcement = Announcement(home, self._page.target, population=name)
        except BaseException:
            self._page.close()
            raise
        self.note = f"metrics for Prometheus: {self._page.url}"

    def look(self, state: State, *, busy: int, steps: int, paused: bool) -> None:
        """Where the population stands, as often as is worth the counting."""
        if time.monotonic() - self._beat >= BEAT:
            self._beat = time.monotonic()
            steps = max(steps, self._collector.now.steps)  # what a crash takes back is no new beginning
            self._collector.now = standing(state, self._slots, busy=busy, steps=steps, paused=paused)

    def close(self) -> None:
        """The population is over."""
        self._announcement.withdraw()
        self._page.close()


def standing(state: State, slots: int, *, busy: int, steps: int, paused: bool) -> PopulationStanding:
    """All of it, from what the journal says."""
    members = state.members.values()
    states, kinds = Counter(each.state for each in members), Counter(line["kind"] for line in expanded(state.lines))
    return PopulationStanding(
        members={name: states[name] for name in STATES}, slots=slots, busy=busy, paused=paused,
        best=max((each.score.mean for each in members if each.score is not None), default=None), steps=steps,
        turns=kinds["turn"], crashes=kinds["crashed"], copies=kinds["copied"], core_seconds=state.core_seconds,
    )  # fmt: skip
