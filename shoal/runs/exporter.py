"""What Prometheus is told of a run: its Program and its controller in, a sink out."""

from __future__ import annotations

from importlib.metadata import version

from shoal.api.program import Program
from shoal.monitoring.prometheus import Exporter, Standing, Watched
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.service_discovery import Announcement
from shoal.monitoring.sinks import Row
from shoal.workers.controller import Controller


class RunExporter:
    """Serves a run's numbers, and is found in `prometheus.json` of the runs' folder meanwhile."""

    def __init__(self, folder: RunFolder, program: Program, controller: Controller) -> None:
        config = program.experiment.log.prometheus
        assert config is not None, "it was asked for"
        self._exporter = Exporter(config, _watched(folder, program, controller))
        try:
            self._announcement = Announcement(folder, self._exporter.target)
        except BaseException:
            self._exporter.close()
            raise
        self.note = f"metrics for Prometheus: {self._exporter.url}"

    def write(self, row: Row) -> None:
        """Take the row."""
        self._exporter.write(row)

    def close(self) -> None:
        """The run is over."""
        self._announcement.withdraw()
        self._exporter.close()


def _watched(folder: RunFolder, program: Program, controller: Controller) -> Watched:
    experiment = program.experiment
    algorithms = {spec.algorithm.name: None for spec in program.policies.values() if spec.algorithm is not None}
    info = {
        "run": folder.name, "env": str(experiment.env.id), "algorithm": ", ".join(algorithms),
        "seed": str(experiment.seed), "version": version("shoal"),
    }  # fmt: skip
    rows = sum(program.policies[name].lanes * program.policies[name].facts.unroll for name in program.learners)
    kinds = tuple(dict.fromkeys(worker.kind for worker in program.workers))
    return Watched(
        folder.path, info, tuple(program.policies), kinds, program.slots * rows, lambda: _standing(controller)
    )


def _standing(controller: Controller) -> Standing:
    counters, best = controller.counters, controller.scoreboard.best
    versions = {policy: clock.version for policy, clock in controller.clocks.items()}
    return Standing(
        counters.steps, counters.update, versions, controller.paused, controller.counts, best.mean if best else None
    )
