"""Start a run or go on with one: settings in, an outcome out."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from shoal.api.experiment import ActorRange, Experiment
from shoal.api.program import Program
from shoal.base.descendants import no_new_children
from shoal.base.errors import InputError
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from shoal.envs.curriculum import check_stages
from shoal.launchers.inline import InlineLauncher
from shoal.launchers.launcher import Launcher
from shoal.launchers.open_files import allow_open_files
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.terminal import TerminalView
from shoal.program.expand import expand
from shoal.program.probe import choose_placement
from shoal.runs.run import Cluster, Outcome, run_in

LAUNCHERS = ("inline", "local", "ray")


@no_new_children()
def train(
    experiment: Experiment,
    *,
    trial: str | None = None,
    root: Path | str = "runs",
    on: str = "local",
    quiet: bool = False,
    cluster: Cluster | None = None,
) -> Outcome:
    """Start a run and train until a stop rule ends it. Settings that cannot work are found before anything is written."""
    _prepare(on)
    if on == "ray":
        from shoal.runs.ray import driver

        return driver.train(experiment, cluster or Cluster(), trial=trial, root=Path(root), quiet=quiet)
    if isinstance(experiment.placement.actors, ActorRange):
        raise InputError(f"placement.actors = {{min, max}} is for --on ray: give one number for --on {on}")
    check_stages(experiment)
    experiment, why = choose_placement(experiment) if on == "local" else (experiment, None)
    program = _expand(experiment, on)
    folder = RunFolder.create(Path(root), experiment.name, trial)
    return _train(folder, program, None, on, quiet, why)


@no_new_children()
def resume(
    name: str,
    trial: str,
    *,
    overrides: list[str] | None = None,
    root: Path | str = "runs",
    on: str = "local",
    quiet: bool = False,
    cluster: Cluster | None = None,
) -> Outcome:
    """Go on with a run from its last whole checkpoint, under its own settings with `overrides` on top."""
    _prepare(on)
    folder = RunFolder.open(Path(root), name, trial)
    experiment = Experiment.parse(folder.read_config(overrides))
    if on == "ray":
        from shoal.runs.ray import driver

        return driver.go_on(folder, experiment, cluster or Cluster(), quiet=quiet)
    check_stages(experiment)
    start = CheckpointStore(folder.checkpoints, keep=experiment.checkpoint.keep).latest()
    return _train(folder, _expand(experiment, on), start, on, quiet)


def check_launcher(on: str) -> None:
    """There is one of that name."""
    if on not in LAUNCHERS:
        raise InputError(f"--on {on}: there is no such launcher; choose from: {', '.join(LAUNCHERS)}")


def _prepare(on: str) -> None:
    check_launcher(on)
    torch.set_num_threads(1)  # equal bits everywhere, and on small networks faster than two


def _expand(experiment: Experiment, on: str) -> Program:
    program = expand(experiment, exact=on == "inline")
    if on == "local" and not fits_one_process(program):
        allow_open_files(program)
    return program


def _train(
    folder: RunFolder, program: Program, start: Checkpoint | None, on: str, quiet: bool, why: str | None = None
) -> Outcome:
    view = None if quiet else TerminalView(program.experiment.name, folder.path, program.experiment.stop)

    def launcher(program: Program, start: Checkpoint | None, folder: RunFolder) -> Launcher:
        return _launcher(on, program, start, folder)

    return run_in(folder, program, start, launcher, on=on, view=view, argv=sys.argv, why=why)


def _launcher(on: str, program: Program, start: Checkpoint | None, folder: RunFolder) -> Launcher:
    if on == "inline" or fits_one_process(program):
        return InlineLauncher(program, start, folder.checkpoints)
    from shoal.launchers.local import LocalLauncher

    return LocalLauncher(program, start, folder)


def fits_one_process(program: Program) -> bool:
    """One process has all workers but the controller."""
    return len(program.processes) == 1
