"""The same run again, from its folder: same settings, same launcher, as many updates; then row by row, whether it is the same."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shoal.api.experiment import Experiment, StopConfig
from shoal.base.errors import InputError, ShoalError
from shoal.checkpoints.store import CheckpointStore
from shoal.monitoring.jsonl import in_order, newest_first
from shoal.monitoring.run_folder import RunFolder
from shoal.runs import provenance
from shoal.runs.cluster_file import read_address
from shoal.runs.outcome import Cluster, Outcome
from shoal.runs.reproduction import Difference, changes, clocked, first_difference
from shoal.runs.status import ended
from shoal.runs.train import train

RULES = ("stop.steps", "stop.updates", "stop.return")
"""Ends that come again by themselves."""


@dataclass(frozen=True)
class Reproduction:
    """What came of it."""

    outcome: Outcome
    exact: bool
    """It is an exact run: its numbers must be equal, and were compared."""
    left_out: tuple[str, ...]
    """How columns begin that were not compared."""
    difference: Difference | None
    """The first, in the rows."""
    version: int | None
    """The newest that both runs have kept; its parameters, optimiser and all were compared."""
    tensor: str | None
    """The first in that version that is not the same."""


@dataclass(frozen=True)
class Plan:
    """What would be started again."""

    folder: RunFolder
    rows: list[dict[str, Any]]
    experiment: Experiment
    launcher: str
    """Who runs it now."""
    cluster: Cluster
    until: int | None
    """The update to stop after, where the end would not come again by itself."""
    warnings: list[str]
    """What is not as it was."""
    resumed: int | None


def plan(run: str, *, on: str | None = None, root: Path | str = "runs") -> Plan:
    """Read what a run was, and hold it against what is here now."""
    folder = RunFolder.find(run, Path(root))
    rows = in_order(folder.metrics)
    if not rows:
        raise InputError(f"{folder.name} has no rows of numbers yet: there is nothing to reproduce")
    records = [record for record in provenance.read(folder) if "machine" in record]
    launcher = on or _launcher(records)
    resumed = _first_resume(folder)
    own_rule = (ended(folder)["reason"] or "").startswith(RULES)
    until = None if own_rule and resumed is None else int(rows[-1]["update"])
    experiment = _unwatched(Experiment.parse(folder.read_config()))
    if until is not None:
        stop = experiment.stop.model_dump() | {"updates": until, "seconds": StopConfig().seconds}
        experiment = Experiment.parse(experiment.model_dump() | {"stop": stop})
    cluster = Cluster(read_address(folder)) if launcher == "ray" else Cluster()
    return Plan(folder, rows, experiment, launcher, cluster, until, _warnings(records, launcher), resumed)


def _unwatched(experiment: Experiment) -> Experiment:
    """Without those who were told of the run: it may be somebody else's, and so may be its commands and its place in W&B."""
    log = experiment.log.model_dump() | {"wandb": None, "notify": []}
    return Experiment.parse(experiment.model_dump() | {"log": log})


def reproduce(
    planned: Plan, *, trial: str | None = None, root: Path | str = "runs", quiet: bool = False
) -> Reproduction:
    """Run it, then compare."""
    trial = trial or free_name(planned.folder.trial, Path(root) / planned.experiment.name)
    outcome = train(
        planned.experiment, trial=trial, root=root, on=planned.launcher, quiet=quiet, cluster=planned.cluster
    )
    again = RunFolder(outcome.folder)
    experiment = Experiment.parse(again.read_config())
    by_chance = experiment.league is not None and planned.launcher != "inline"  # who comes first decides who meets whom
    if outcome.interrupted or by_chance or not experiment.placement.exact:
        return Reproduction(outcome, False, (), None, None, None)
    left_out = _left_out(planned)
    difference = first_difference(planned.rows, in_order(again.metrics), left_out)
    version, tensor = _first_tensor(planned.folder, again)
    return Reproduction(outcome, True, left_out, difference, version, tensor)


def _left_out(planned: Plan) -> tuple[str, ...]:
    experiment = planned.experiment
    policy_workers = experiment.placement.inference == "worker"
    return clocked(policy_workers=policy_workers, evaluated=experiment.evaluation is not None)


def _first_tensor(then: RunFolder, now: RunFolder) -> tuple[int | None, str | None]:
    """The newest version that both have, and the first of its tensors that differs; a damaged one is not looked at."""
    stores = [CheckpointStore(folder.checkpoints, keep=1) for folder in (then, now)]
    shared = set(stores[0].versions()) & set(stores[1].versions())
    if not shared:
        return None, None
    try:
        before, after = (store.load(max(shared)).tensors for store in stores)
    except ShoalError:
        return None, None
    names = sorted({*before, *after})
    return max(shared), next((name for name in names if not _same(before.get(name), after.get(name))), None)


def _same(before: Tensor | None, after: Tensor | None) -> bool:
    return before is not None and after is not None and before.dtype == after.dtype and torch.equal(before, after)


def free_name(trial: str, parent: Path) -> str:
    """`one-again`, `one-again-2`, ..."""
    name, count = f"{trial}-again", 1
    while (parent / name).exists():
        count += 1
        name = f"{trial}-again-{count}"
    return name


def _launcher(records: list[dict[str, Any]]) -> str:
    """As it was written down; of older runs, as their command says."""
    if not records:
        return "local"
    if "launcher" in records[-1]:
        return str(records[-1]["launcher"])
    words = [word for each in records[-1]["command"] for word in str(each).split("=", 1)]
    return words[words.index("--on") + 1] if "--on" in words[:-1] else "local"


def _first_resume(folder: RunFolder) -> int | None:
    starts = [event for event in newest_first(folder.events) if event.get("kind") == "start" and event.get("resumed")]
    return int(starts[-1]["version"]) if starts else None


def _warnings(records: list[dict[str, Any]], launcher: str) -> list[str]:
    if not records:
        return ["provenance.json is missing or damaged: with which versions it was run cannot be told"]
    now = provenance.collect(sys.argv, 0, launcher)
    said = [line for record in records for line in changes(record, now)]
    return list(dict.fromkeys(said))
