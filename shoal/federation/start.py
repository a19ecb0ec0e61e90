"""Starting either end: settings in, a run in its folder, an outcome out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from shoal.api.experiment import EvaluationConfig, Experiment, PlacementConfig, load_experiment
from shoal.api.federation import FederationConfig
from shoal.api.program import Program
from shoal.base.config import Named
from shoal.base.descendants import no_new_children
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed
from shoal.base.table import from_here
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from shoal.envs.registered import check_known
from shoal.federation.call import look, try_credentials
from shoal.federation.credentials import Credentials, require_federation
from shoal.federation.layout import fingerprint_of, one_learner
from shoal.federation.messages import Offer
from shoal.federation.network import check_uri, parse_address
from shoal.federation.parent_worker import KEPT, ParentSpec
from shoal.federation.plan import Plan
from shoal.launchers.errand import Errand, nothing
from shoal.launchers.inline import InlineLauncher
from shoal.launchers.launcher import Launcher
from shoal.launchers.links import Limits
from shoal.launchers.open_files import allow_open_files
from shoal.monitoring.run_folder import RunFolder
from shoal.monitoring.terminal import TerminalView
from shoal.program.expand import check_settings, expand
from shoal.program.probe import survey
from shoal.program.processes import lay_out
from shoal.rollout.plans import Plans
from shoal.runs.facts import run_facts
from shoal.runs.outcome import Outcome
from shoal.runs.run import run_in
from shoal.workers.confirmation import ConfirmationSpec
from shoal.workers.evaluation import EvaluationSpec

UPLINK = "shoal.federation.uplink:UplinkSpec"
EVALUATION = EvaluationConfig(every=10.0, episodes=20)
"""Of a parent whose recipe has none: its score is what the run is about."""


@dataclass(frozen=True)
class Where:
    """Where the run is kept, and under which name."""

    trial: str | None = None
    root: Path | str = "runs"
    resume: bool = False
    quiet: bool = False


# ---------------------------------------------------------------- the parent


@from_here()
@no_new_children()
def parent(
    recipe: Path, overrides: list[str], *, credentials: Path, listen: str | None, children: list[str], where: Where
) -> Outcome:
    """Mix what children learn, until a stop rule ends it."""
    require_federation()
    identity = Credentials(credentials.absolute())
    if not identity.is_parent:
        raise InputError(f"{credentials} holds no authority: make one with `shoal credentials init`")
    try_credentials(identity)
    if (listen is None) == (not children):
        raise InputError("a parent is called, --listen HOST:PORT, or calls, --children wss://HOST:PORT: choose one")
    if listen is not None:
        parse_address(listen)
    for uri in children:
        check_uri(uri, "--children")
    wanted = load_experiment(recipe, overrides)
    plan = Plan(recipe.stem, fingerprint_of(wanted), str(identity.folder), listen, children)
    folder = _folder(wanted, where)
    start = None
    if where.resume and not ((folder.path / KEPT).exists() and not CheckpointStore(folder.checkpoints).versions()):
        start = CheckpointStore(folder.checkpoints).latest()  # one that died before its first has what it kept
    program = parent_program(_parents(wanted), where)
    plan.write(folder.path)
    return _run(folder, program, start, "local", where, f"a parent of '{plan.recipe}'")


def _parents(wanted: Experiment) -> Experiment:
    """Without all that only children need."""
    changes: dict[str, Any] = {
        "placement": PlacementConfig(actors=1, trainers=1, agree=Named(name="allreduce"), max_lag=0, exact=False),
        "federation": wanted.federation or FederationConfig(), "evaluation": wanted.evaluation or EVALUATION,
    }  # fmt: skip
    return wanted.model_copy(update=changes)


def parent_program(experiment: Experiment, where: Where) -> Program:
    """The parent worker in the place of trainer and actors, and those who evaluate."""
    program = _expanded(experiment, "local")
    one_learner(program)
    return lay_out(
        replace(program, processes=(), streams={}), Plans(program), kinds=[ParentSpec, EvaluationSpec, ConfirmationSpec]
    )


# ---------------------------------------------------------------- a child


@from_here()
@no_new_children()
def child(
    uri: str | None, listen: str | None, recipe: Path | None, overrides: list[str], *, find: Callable[[str], Path],
    credentials: Path, cores: int, seed: int | None, on: str, where: Where,
) -> Outcome:  # fmt: skip
    """Train here, and let a parent mix it with what others learn. `find`: where a recipe of this release lies, by its name."""
    require_federation()
    identity = Credentials(credentials.absolute())
    if identity.is_parent:
        raise InputError(
            f"{credentials} is the authority's: a child uses what `shoal credentials issue NAME` made for it"
        )
    try_credentials(identity)
    if (uri is None) == (listen is None):
        raise InputError("a child calls, --parent wss://HOST:PORT, or is called, --listen HOST:PORT: choose one")
    if on not in ("local", "inline"):
        raise InputError(f"--on {on}: a child is a run on one machine; choose from: local, inline")
    if uri is not None:
        check_uri(uri, "--parent")
    else:
        parse_address(str(listen))
    offer = look(uri, listen, identity) if uri is not None or recipe is None else None
    path = recipe or find(offer.recipe if offer is not None else "")
    wanted = load_experiment(path, overrides)
    fingerprint = fingerprint_of(wanted)
    if offer is not None and offer.fingerprint != fingerprint:
        raise InputError(
            f"the parent trains '{offer.recipe}' with other settings than {path.name} has here: use the same release, and give "
            "the parent's KEY=VALUE here too"
        )
    experiment = childs(wanted, identity.name, offer, cores=cores, seed=seed)
    folder = _folder(experiment, where)
    start = CheckpointStore(folder.checkpoints).latest() if where.resume else None
    program = _expanded(experiment, on)
    one_learner(program)
    Plan(path.stem, fingerprint, str(identity.folder), listen, [uri] if uri else []).write(folder.path)
    return _run(folder, program, start, on, where, f"{identity.name}, a child that trains '{path.stem}'")


def childs(wanted: Experiment, name: str, offer: Offer | None, *, cores: int, seed: int | None) -> Experiment:
    """The recipe as a child trains it: on so many cores, from a seed of its own, until the parent has enough."""
    config = wanted.federation or FederationConfig()
    rounds = {"every": config.every, "alpha": config.alpha, "waits": config.waits}
    if offer is not None:
        rounds = {"every": offer.round, "alpha": offer.alpha, "waits": offer.waits}
    local = wanted.placement.agree
    kept = local.rest if local is not None and local.name == "average" else {}
    agree = Named(**{**kept, "name": "average", "parent": {**rounds, "patience": config.patience}})
    own = seed if seed is not None else derive_seed(wanted.seed, f"child {name}") % 2**62
    return wanted.model_copy(update={
        "placement": _placed(wanted.placement, cores).model_copy(update={"agree": agree}), "evaluation": None,
        "stop": wanted.stop.model_copy(update={"return_": None}), "workers": {**wanted.workers, "uplink": UPLINK},
        "seed": own,
    })  # fmt: skip


def _placed(placement: PlacementConfig, cores: int) -> PlacementConfig:
    """An actor beside a trainer on every core; where buffer workers replay, more actors for one trainer."""
    if placement.buffers:
        return placement.model_copy(update={"trainers": 1, "actors": max(cores, placement.buffers)})
    return placement.model_copy(update={"trainers": cores, "actors": cores, "together": True})


# ---------------------------------------------------------------- either


def _folder(experiment: Experiment, where: Where) -> RunFolder:
    root = Path(where.root).absolute()
    if where.resume:
        if where.trial is None:
            raise InputError("--resume needs --trial: which run should go on?")
        return RunFolder.open(root, experiment.name, where.trial)
    return RunFolder.create(root, experiment.name, where.trial)


def _expanded(experiment: Experiment, on: str) -> Program:
    check_known(experiment.env, on)
    check_settings(experiment)
    torch.set_num_threads(1)
    if on == "inline":
        return expand(experiment)
    facts = (
        Errand(f"a look at {experiment.env.id}", Limits.of(experiment), nothing)
        .run(survey, experiment, place=False)
        .facts
    )
    return expand(experiment, exact=False, facts=facts)


def _run(
    folder: RunFolder, program: Program, start: Checkpoint | None, on: str, where: Where, note: str
) -> Outcome:  # fmt: skip
    view = None if where.quiet else TerminalView(run_facts(program.experiment, folder.path))

    def launcher(program: Program, start: Checkpoint | None, folder: RunFolder) -> Launcher:
        if on == "inline":
            return InlineLauncher(program, start, folder.checkpoints)
        from shoal.launchers.local import LocalLauncher

        allow_open_files(program)
        return LocalLauncher(program, start, folder)

    return run_in(folder, program, start, launcher, on=on, view=view, argv=["shoal"], notes=[note], here=Path.cwd())
