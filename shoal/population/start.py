"""Start a population or go on with one: settings in, how it ended out."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.api.experiment import Experiment
from shoal.api.population import BudgetConfig, SweepConfig
from shoal.base.descendants import no_new_children
from shoal.base.errors import InputError
from shoal.base.table import from_here
from shoal.envs.registered import check_known
from shoal.launchers.links import Limits
from shoal.monitoring import prometheus
from shoal.monitoring.wandb_sink import require_wandb
from shoal.population.folder import PopulationFolder
from shoal.population.pbt import PopulationTraining, ends_of_space
from shoal.population.population import Ended, Population
from shoal.population.settings import live_keys, member_experiment, one_run, settings_of
from shoal.population.slots import Slots, Supply
from shoal.population.strategy import Strategy
from shoal.population.sweep import Sweep, members_of
from shoal.population.view import PopulationView
from shoal.program.expand import check_settings
from shoal.runs.outcome import Cluster

MakeStrategy = Callable[[Experiment, PopulationFolder, int], tuple[Strategy, BudgetConfig]]
"""From the settings, the folder and the number of slots."""


@dataclass(frozen=True)
class Options:
    """Where a population lives, and where and how many at once of its members work."""

    name: str
    root: Path = Path("runs")
    parallel: int | None = None
    """Slots; None: one per core of this machine, or as many as the cluster holds."""
    resume: bool = False
    quiet: bool = False
    cluster: Cluster | None = None
    """Whose machines members work on; None: this one."""


def sweep(values: dict[str, Any], words: list[str], options: Options) -> Ended:
    """Every combination of `sweep.grid` with every seed. `values`: of a new one; of one that is resumed, `words` lie on top."""

    def strategy(experiment: Experiment, folder: PopulationFolder, slots: int) -> tuple[Strategy, BudgetConfig]:
        config = experiment.sweep or SweepConfig()
        for member in members_of(config, experiment.seed).values():
            check(member_experiment(folder.settings, member))
        return Sweep(config, experiment.seed), config.budget

    return run(values, words, options, strategy)


def population(values: dict[str, Any], words: list[str], options: Options) -> Ended:
    """Population-based training, by the section `population`."""

    def strategy(experiment: Experiment, folder: PopulationFolder, slots: int) -> tuple[Strategy, BudgetConfig]:
        config = experiment.population
        assert config is not None, "who calls this has looked"
        for ends in [[], *ends_of_space(config.space)]:
            check(member_experiment(folder.settings, ends))
        recipe = settings_of(experiment, config.space)
        for key, value in recipe.items() if config.begin == "recipe" else ():
            if config.space[key].choice is None and not isinstance(value, int | float):
                raise InputError(
                    f"{key} = {value!r} is no number to begin with: write one, or population.begin=sampled"
                )
        return PopulationTraining(experiment, recipe, live_keys(experiment)), config.budget

    return run(values, words, options, strategy)


def tune(values: dict[str, Any], words: list[str], options: Options) -> Ended:
    """A search for better settings, by the section `tune`."""
    require_optuna()
    from shoal.population.study import Study
    from shoal.population.tune import Tuning, rungs

    def strategy(experiment: Experiment, folder: PopulationFolder, slots: int) -> tuple[Strategy, BudgetConfig]:
        config = experiment.tune
        if config is None:
            raise InputError(
                "tune: say where better settings may lie, e.g. tune: {space: {algorithm.lr: {log: [1e-5, 1e-2]}}}"
            )
        for ends in [[], *ends_of_space(config.space)]:
            check(member_experiment(folder.settings, ends))
        study = Study(folder.path, config, experiment.seed, *rungs(experiment))
        study.recall(folder.journal.read())
        return Tuning(experiment, study, settings_of(experiment, config.space), slots), config.budget

    return run(values, words, options, strategy)


def require_optuna() -> None:
    """Fail with the remedy where the extra is missing."""
    if importlib.util.find_spec("optuna") is None:
        raise InputError("shoal tune needs Optuna: pip install 'shoal[tune]'")


@from_here()
@no_new_children()
def run(values: dict[str, Any], words: list[str], options: Options, make: MakeStrategy) -> Ended:
    """A population of any kind. What cannot work is found before anything is trained."""
    root = options.root.absolute()
    if options.resume:
        folder = PopulationFolder.open(root, options.name)
        values = folder.read_settings(words)
    experiment = Experiment.parse(values)
    prometheus.check(experiment.log.prometheus)
    with _slots(values, options) as supply:
        if not options.resume:
            folder = PopulationFolder.create(root, options.name)
        before = folder.settings.read_bytes() if options.resume else None
        folder.write_settings({**values, "name": options.name})
        try:
            strategy, budget = make(experiment, folder, supply.count)
        except InputError:
            _undo(folder, before)
            raise
        with PopulationView(quiet=options.quiet) as view:
            return Population(folder, strategy, budget, supply, experiment.log, tell=view.tell, show=view.show).run()


@contextmanager
def _slots(values: dict[str, Any], options: Options) -> Iterator[Supply]:
    """Of this machine, or of the cluster."""
    experiment = one_run(values)
    if options.cluster is None:
        count, limits = options.parallel or len(os.sched_getaffinity(0)), Limits.of(experiment)
        yield Supply(count, lambda folder: Slots(folder.settings, count, limits))
        return
    from shoal.population.ray.slots import cluster_slots

    with cluster_slots(experiment, options.cluster, options.parallel) as supply:
        yield supply


def _undo(folder: PopulationFolder, before: bytes | None) -> None:
    """Nothing was trained: as if nobody had tried."""
    if before is not None:
        folder.settings.write_bytes(before)
        return
    folder.settings.unlink()
    if not any(folder.path.iterdir()):
        folder.path.rmdir()


def check(member: Experiment) -> None:
    """What is wrong with the settings of a member shows before any is trained."""
    check_settings(member)
    check_known(member.env, "local")
    require_wandb(member.log.wandb)
