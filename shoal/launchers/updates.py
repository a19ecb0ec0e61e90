"""What trainers say of their updates, put in order: version by version, policy by policy, replica by replica.

Who is slower to speak, or learns in another process, must not decide which row of numbers tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from shoal.api.metric import Metric, merge_into
from shoal.api.worker import Report

AHEAD = 64
"""Updates of one policy that wait for those of the others; where agents act at different paces, one may run away for ever."""


def joined(reports: list[Report]) -> Report:
    """What replicas in step say of one version, in the words of the first, with the numbers of all in the order of ranks."""
    metrics: dict[str, Metric] = {}
    for report in reports:
        merge_into(metrics, report.metrics)
    return replace(reports[0], metrics=metrics)


class Updates:
    """Updates that were heard of, and wait for all that belongs to them."""

    def __init__(self, policies: Iterable[str], replicas: int) -> None:
        self._replicas = replicas
        self._waiting: dict[str, dict[int, dict[int, Report]]] = {policy: {} for policy in policies}
        """Policy -> version -> rank -> what was said."""
        self._given = dict.fromkeys(self._waiting, -1)

    def add(self, report: Report) -> None:
        """A replica made a version."""
        assert report.version is not None
        self._waiting[report.policy].setdefault(report.version, {})[report.replica] = report

    def take(self, heard: Callable[[int], bool]) -> list[Report]:
        """Those that are whole: every policy has made the version, every replica spoke, and so did the actors: `heard`."""
        taken: list[Report] = []
        while (version := self._next()) is not None:
            if self._crowded or (self._told(version) and heard(version)):
                taken += self._give(version)
            else:
                break
        return taken

    @property
    def due(self) -> bool:
        """Every policy has made a version that was not taken yet."""
        return self._next() is not None

    def rest(self) -> list[Report]:
        """All that is left, at the end of a run: policies that are ahead of others."""
        versions = sorted({version for waiting in self._waiting.values() for version in waiting})
        return [report for version in versions for report in self._give(version)]

    def break_off(self) -> None:
        """The replicas died: nobody will say more of their versions. Without the word of the first there is nothing to judge."""
        for policy, waiting in self._waiting.items():
            absent = {rank: Report() for rank in range(self._replicas)}
            self._waiting[policy] = {version: {**absent, **said} for version, said in waiting.items() if 0 in said}

    @property
    def _crowded(self) -> bool:
        return any(len(waiting) > AHEAD for waiting in self._waiting.values())

    def _next(self) -> int | None:
        """The oldest version that waits, if every policy has made it, or one after it: deaths leave gaps."""
        version = min((version for waiting in self._waiting.values() for version in waiting), default=None)
        if version is None or self._crowded:
            return version
        return version if all(waiting or self._given[p] >= version for p, waiting in self._waiting.items()) else None

    def _told(self, version: int) -> bool:
        return all(len(waiting[version]) == self._replicas for waiting in self._waiting.values() if version in waiting)

    def _give(self, version: int) -> list[Report]:
        given = []
        for policy, waiting in self._waiting.items():
            if (said := waiting.pop(version, None)) is not None and 0 in said:
                given.append(joined([said[rank] for rank in sorted(said)]))
                self._given[policy] = version
        return given
