"""Start a run or go on with one: settings in, an outcome out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import torch

from shoal.api.callback import Callback
from shoal.api.experiment import ActorRange, Experiment, PlacementConfig
from shoal.api.program import Program
from shoal.api.worker import Heartbeat
from shoal.base.arithmetic import arithmetic_of
from shoal.base.compiling import check_compiler
from shoal.base.descendants import no_new_children
from shoal.base.device import AUTO, find_device
from shoal.base.errors import InputError
from shoal.base.table import being_imported, from_here
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from shoal.envs.registered import check_known
from shoal.launchers.errand import Errand, nothing
from shoal.launchers.inline import InlineLauncher
from shoal.launchers.launcher import Launcher
from shoal.launchers.links import Limits
from shoal.launchers.open_files import allow_open_files
from shoal.monitoring import prometheus
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.terminal import TerminalView, waiting
from shoal.monitoring.wandb_sink import require_wandb
from shoal.program.env_facts import EnvFacts
from shoal.program.expand import check_settings, expand
from shoal.program.probe import Survey, survey
from shoal.runs.facts import run_facts, unused_settings
from shoal.runs.outcome import Cluster, Outcome
from shoal.runs.run import Begun, run_in

LAUNCHERS = ("inline", "local", "ray")


@from_here()
@no_new_children()
def train(
    experiment: Experiment,
    *,
    trial: str | None = None,
    root: Path | str = "runs",
    on: str = "local",
    quiet: bool = False,
    cluster: Cluster | None = None,
    callbacks: Sequence[Callback] = (),
    begun: Begun | None = None,
) -> Outcome:
    """Start a run and train until a stop rule or a callback ends it. What cannot work is found before anything is written."""
    _prepare(on, callbacks, begun)
    require_wandb(experiment.log.wandb)
    check_known(experiment.env, on)
    prometheus.check(experiment.log.prometheus)
    root, here = Path(root).absolute(), Path.cwd()  # before any environment is made: it may go to another folder
    if on == "ray":
        from shoal.runs.ray import driver

        return driver.train(experiment, cluster or Cluster(), trial=trial, root=root, quiet=quiet)
    if isinstance(experiment.placement.actors, ActorRange):
        raise InputError(f"placement.actors = {{min, max}} is for --on ray: give one number for --on {on}")
    found = _survey(experiment, on, quiet, place=on == "local")
    program, why = _expand(found.experiment, on, found.facts), found.why
    folder = RunFolder.create(root, experiment.name, trial)
    return _train(folder, program, None, on, quiet, callbacks, here, begun, why)


@from_here()
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
    callbacks: Sequence[Callback] = (),
    begun: Begun | None = None,
) -> Outcome:
    """Go on with a run from its last whole checkpoint, under its own settings with `overrides` on top."""
    _prepare(on, callbacks, begun)
    folder, here = RunFolder.open(Path(root).absolute(), name, trial), Path.cwd()
    experiment = Experiment.parse(folder.read_config(overrides))
    require_wandb(experiment.log.wandb)
    check_known(experiment.env, on)
    prometheus.check(experiment.log.prometheus)
    if on == "ray":
        from shoal.runs.ray import driver

        return driver.go_on(folder, experiment, cluster or Cluster(), quiet=quiet)
    found = _survey(experiment, on, quiet, place=False)
    experiment, facts = found.experiment, found.facts
    start = CheckpointStore(folder.checkpoints, keep=experiment.checkpoint.keep).latest()
    return _train(folder, _expand(experiment, on, facts), start, on, quiet, callbacks, here, begun)


def _survey(experiment: Experiment, on: str, quiet: bool, *, place: bool) -> Survey:
    """In one process for those who debug it; otherwise in one that may hang or die."""
    check_settings(experiment)
    check_devices(experiment.placement)
    if on == "inline":
        return survey(Heartbeat(), experiment, place=place)
    what = f"a look at {experiment.env.id}"
    with nullcontext() if quiet else waiting(f"{what}, and which placement is fastest on this machine"):
        return Errand(what, Limits.of(experiment), nothing).run(survey, experiment, place=place)


def check_devices(placement: PlacementConfig) -> None:
    """They are here, and can what is asked of them. On a cluster it is the workers' machines that count."""
    for key in ("device", "policy_device"):
        if (name := getattr(placement, key)) != AUTO:
            device = find_device(name, key=f"placement.{key}")
            if placement.precision == "bf16":
                arithmetic_of(placement.precision, device)
            if placement.compile and (key == "device" or placement.inference == "worker"):
                check_compiler(device)


def check_launcher(on: str) -> None:
    """There is one of that name."""
    if on not in LAUNCHERS:
        raise InputError(f"--on {on}: there is no such launcher; choose from: {', '.join(LAUNCHERS)}")


def _prepare(on: str, callbacks: Sequence[Callback], begun: Begun | None) -> None:
    check_launcher(on)
    if (where := being_imported()) is not None:
        raise InputError(
            f"{where} trains when it is imported, and processes import it: put its training under if __name__ == '__main__':"
        )
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise InputError(
                f"callbacks: {callback!r} is no shoal.Callback: make a subclass of it, and pass an instance"
            )
    if (callbacks or begun is not None) and on == "ray":
        raise InputError("callbacks are called in this process, and --on ray decides in another: use on='local'")
    torch.set_num_threads(1)  # equal bits everywhere, and on small networks faster than two


def _expand(experiment: Experiment, on: str, facts: EnvFacts) -> Program:
    program = expand(experiment, exact=on == "inline", facts=facts)
    if on == "local":
        allow_open_files(program)
    return program


def _train(
    folder: RunFolder, program: Program, start: Checkpoint | None, on: str, quiet: bool, callbacks: Sequence[Callback],
    here: Path, begun: Begun | None, why: str | None = None,
) -> Outcome:  # fmt: skip
    view = None if quiet else TerminalView(run_facts(program.experiment, folder.path))

    def launcher(program: Program, start: Checkpoint | None, folder: RunFolder) -> Launcher:
        return _launcher(on, program, start, folder)

    notes = [*([why] if why else []), *unused_settings(program.experiment, on)]
    return run_in(
        folder, program, start, launcher, on=on, view=view, argv=sys.argv, notes=notes, callbacks=callbacks, here=here,
        begun=begun,
    )  # fmt: skip


def _launcher(on: str, program: Program, start: Checkpoint | None, folder: RunFolder) -> Launcher:
    if on == "inline":
        return InlineLauncher(program, start, folder.checkpoints)
    from shoal.launchers.local import LocalLauncher

    return LocalLauncher(program, start, folder)
