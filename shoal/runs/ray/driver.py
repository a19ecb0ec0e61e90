"""`shoal train --on ray`, seen from the terminal: start the controller, show what it says, pass on what the person wants."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray

from shoal.api.evaluation import Match, Scores
from shoal.api.experiment import Experiment
from shoal.base.errors import InputError, ShoalError
from shoal.base.faults import VARIABLE
from shoal.launchers.interrupts import Interrupts
from shoal.launchers.ray.cluster import NAMESPACE, HeadWatch, check_shape, connected, fill_placement
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.terminal import TerminalView
from shoal.monitoring.wandb_sink import wandb_variables
from shoal.program.expand import expand
from shoal.runs.cluster_file import read_address, write_cluster
from shoal.runs.facts import run_facts
from shoal.runs.outcome import Cluster, Outcome
from shoal.runs.panel import NotRunningError
from shoal.runs.ray.controller import RayController, RunOrder

RESTARTS = 3
"""Times that Ray may start a dead controller again."""
LOOK = 0.3
"""Seconds between two looks at the news."""
PATIENCE = 10.0
"""Seconds that a run may take to answer an order."""
HEAD_LOST = 30.0
"""Seconds without an answer of Ray's head after which it is given up. After 60 Ray ends all its processes, ours too."""
LOST_AFTER = 90.0
"""Seconds after which a controller that cannot be reached is given up."""


def train(experiment: Experiment, cluster: Cluster, *, trial: str | None, root: Path, quiet: bool) -> Outcome:
    """Start a run on a cluster, and stay with it until it ends."""
    check_shape(expand(experiment, exact=False))  # mistakes show before anything is started
    with _connected(experiment, cluster) as experiment:
        folder = RunFolder.create(root, experiment.name, trial)
        try:
            return _run(experiment, folder, cluster, resume=False, quiet=quiet)
        except ShoalError:
            if not folder.config.exists():  # it never began: its name is free again
                shutil.rmtree(folder.path, ignore_errors=True)
            raise


def go_on(folder: RunFolder, experiment: Experiment, cluster: Cluster, *, quiet: bool) -> Outcome:
    """Go on with a run from its last whole checkpoint."""
    with _connected(experiment, cluster) as experiment:
        return _run(experiment, folder, cluster, resume=True, quiet=quiet)


class _connected:  # noqa: N801 - reads as the function it stands for
    """Connect, and fill in a placement that was left to the cluster."""

    def __init__(self, experiment: Experiment, cluster: Cluster) -> None:
        self._experiment, self._cluster = experiment, cluster

    def __enter__(self) -> Experiment:
        experiment, own = self._experiment, self._cluster.address is None
        if own:
            experiment = fill_placement(experiment, os.cpu_count() or 1)
        processes = expand(experiment, exact=False).processes if own else ()
        cpus = sum(process.resources.get("CPU", 0) for process in processes)
        self._ray = connected(self._cluster.address, cpus=cpus, working_dir=self._cluster.working_dir)
        self._ray.__enter__()
        return experiment if own else fill_placement(experiment, ray.cluster_resources().get("CPU", 1))

    def __exit__(self, *error: Any) -> None:
        self._ray.__exit__(*error)


def _run(experiment: Experiment, folder: RunFolder, cluster: Cluster, *, resume: bool, quiet: bool) -> Outcome:
    faults = os.environ.get(VARIABLE, "")
    order = RunOrder(experiment.model_dump(), str(folder.path.resolve()), resume, sys.argv, faults, wandb_variables())
    controller = _start(order, folder, detached=cluster.address is not None)
    write_cluster(folder, _address(cluster), actor_name(folder))
    if cluster.detach:
        _see_begin(controller)
        return Outcome(folder.path, "left to the cluster", 0, 0, 0.0, None, False)
    view = None if quiet else TerminalView(run_facts(experiment, folder.path, here=False))
    try:
        return follow(controller, folder, view, own=cluster.address is None)
    except ShoalError:
        if cluster.address is None:
            _keep_logs(folder)
        raise
    finally:
        if view is not None:
            view.close()


def _keep_logs(folder: RunFolder) -> None:
    """Of a Ray of our own that failed: its folder goes with it."""
    logs = Path(ray.get_runtime_context().get_temp_dir()) / "session_latest" / "logs"
    with suppress(OSError):  # what is there, is there
        shutil.copytree(logs, folder.logs / "ray", dirs_exist_ok=True)


def _see_begin(controller: Any) -> None:
    """Until its workers have their places; what goes wrong before that is an error here."""
    items: list[tuple[str, Any]] = []
    while not items:
        _, items = ray.get(controller.news.remote(0))
        for kind, what in items:
            _show(kind, what, None)


def _start(order: RunOrder, folder: RunFolder, *, detached: bool) -> Any:
    """The controller lives where the driver is, so the run folder is where its user is; elsewhere only if that machine is lost.

    By labels: a soft affinity to a node counts for nothing where an actor asks for no resources.
    """
    here = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
    remote: Any = ray.remote  # its types know no concurrency groups
    actor = remote(concurrency_groups={"agents": 1, "drivers": 8})(RayController).options(
        name=actor_name(folder), lifetime="detached" if detached else None, max_restarts=RESTARTS, max_task_retries=0,
        num_cpus=0, label_selector=here, fallback_strategy=[{"label_selector": {}}],
    )  # fmt: skip
    _reap(folder)
    try:
        return actor.remote(order)
    except ValueError as error:
        raise InputError(f"{folder.name} is being trained on this cluster: `shoal attach {folder.name}`") from error


def _reap(folder: RunFolder) -> None:
    """A run that ended a moment ago may still be there to say so; who starts it again has no use for that."""
    try:
        last = ray.get_actor(actor_name(folder), namespace=NAMESPACE)
        if ray.get(last.ended.remote(), timeout=PATIENCE):
            ray.kill(last, no_restart=True)
    except (ValueError, ray.exceptions.RayError):
        return


def actor_name(folder: RunFolder) -> str:
    """By what a run's controller is found on its cluster: runs of other folders may have its name."""
    return f"{folder.name}@{hashlib.sha256(str(folder.path.resolve()).encode()).hexdigest()[:8]}"


def attach(run: str, cluster: Cluster) -> Outcome:
    """Stay with a run that somebody else started, or that was left alone."""
    folder = RunFolder.find(run)
    with connected(cluster.address or _known_address(folder), working_dir=None):
        controller = find(folder)
        experiment = Experiment.parse(folder.read_config())
        view = TerminalView(run_facts(experiment, folder.path, here=False))
        try:
            return follow(controller, folder, view)
        finally:
            view.close()


def tell(folder: RunFolder, order: str) -> dict[str, Any]:
    """Give a run on another machine an order."""
    address = _known_address(folder)
    with connected(address):
        answer: dict[str, Any] = ray.get(find(folder).obey.remote(order), timeout=PATIENCE)
    if "error" in answer:
        raise ShoalError(f"{folder.name}: {answer['error']}")
    return answer


def find(folder: RunFolder) -> Any:
    """The controller of a run that lives."""
    try:
        return ray.get_actor(actor_name(folder), namespace=NAMESPACE)
    except ValueError:
        raise NotRunningError(
            f"{folder.name} is not running on its cluster: its results are in {folder.path}"
        ) from None


def _known_address(folder: RunFolder) -> str:
    """Of the Ray that a run was started on."""
    address = read_address(folder)
    if address is None:
        raise NotRunningError(f"{folder.name} has a Ray of its own, which ends with the command that started it")
    return address


def _address(cluster: Cluster) -> str | None:
    return None if cluster.address is None else ray.get_runtime_context().gcs_address


def follow(controller: Any, folder: RunFolder, view: TerminalView | None, *, own: bool = False) -> Outcome:
    """Show the news until the end. The first signal stops the run in order, the second leaves it."""
    seen, requested, reached, head = 0, False, time.monotonic(), HeadWatch()
    with Interrupts() as interrupts:
        while True:
            if (interrupts.caught or (own and head.lost > HEAD_LOST / 2)) and not requested:
                requested = True
                controller.obey.remote(interrupts.caught or "stop")  # there is time for a checkpoint
            if head.lost > HEAD_LOST:
                raise _headless(folder, head, own=own)
            try:
                seen, items = ray.get(controller.news.remote(seen), timeout=PATIENCE)
                reached = time.monotonic()
            except ray.exceptions.ActorDiedError as error:
                raise ShoalError(
                    f"the controller of {folder.name} is gone: go on with --resume ({_first_line(error)})"
                ) from error
            except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
                if time.monotonic() - reached > LOST_AFTER:
                    raise ShoalError(
                        f"the controller of {folder.name} cannot be reached: {_first_line(error)}"
                    ) from error
                seen, items = 0, []  # it starts again, and so does its list
            for kind, what in items:
                if kind == "end":
                    if own and head.lost > HEAD_LOST / 2:
                        raise _headless(folder, head, own=own)
                    return _outcome(what, interrupted=requested)
                _show(kind, what, view)
            time.sleep(LOOK)


def _headless(folder: RunFolder, head: HeadWatch, *, own: bool) -> ShoalError:
    lost = f"Ray's head at {head.address} has not answered for {head.lost:.0f} s"
    if own:
        return ShoalError(f"{lost}, so {folder.name} was stopped: go on with --resume")
    return ShoalError(
        f"{lost}: if it is only out of reach, {folder.name} goes on without this machine (`shoal attach {folder.name}`); "
        "if it ended, start Ray again and go on with --resume"
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _show(kind: str, what: Any, view: TerminalView | None) -> None:
    if kind == "failed":
        code, text = what
        raise (InputError if code == InputError.exit_code else ShoalError)(text)
    if view is not None and kind != "begun":
        {"row": view.write, "state": lambda said: view.state(*said), "note": view.note}[kind](what)


def _outcome(what: dict[str, Any], *, interrupted: bool) -> Outcome:
    scores = what["scores"]
    if scores is not None:
        scores = Scores(**{**scores, "matches": [Match(**match) for match in scores.get("matches", [])]})
    return Outcome(**{**what, "folder": Path(what["folder"]), "scores": scores, "interrupted": interrupted})
