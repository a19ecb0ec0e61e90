"""What runs where: the settings that an experiment leaves open, filled in; what cannot be shared out is an error."""

from __future__ import annotations

from collections.abc import Collection

from shoal.api.experiment import ActorRange, Experiment, PlacementConfig
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import resolved
from shoal.base.config import Named
from shoal.base.device import AUTO, CPU, accelerator
from shoal.base.errors import InputError
from shoal.workers.replica_sync import SYNCS, ReplicaSync


def with_all_copies(experiment: Experiment) -> Experiment:
    """A range of actors: copies are counted for the most of them."""
    placement = experiment.placement
    actors = placement.actors
    if not isinstance(actors, ActorRange):
        if placement.envs_per_actor is not None:
            raise InputError("placement.envs_per_actor is for a range of actors: remove it, or give actors: {min, max}")
        return experiment
    each = placement.envs_per_actor or max(1, experiment.env.num_envs // actors.min)
    env = experiment.env.model_copy(update={"num_envs": each * actors.max})
    placed = placement.model_copy(update={"envs_per_actor": each})
    return experiment.model_copy(update={"env": env, "placement": placed})


def check_shares(experiment: Experiment) -> None:
    """Every actor has as many copies, and every trainer as many actors."""
    requested, copies = experiment.placement, experiment.env.num_envs
    actors, trainers = _actors(requested), requested.trainers or 1
    if rest := copies % (actors * requested.ring):
        key = "actors" if requested.actors or actors == 1 else "trainers" if actors == trainers else "buffers"
        ring = f" x placement.ring = {requested.ring}" if requested.ring > 1 else ""
        more = f"env.num_envs = {copies - rest + actors * requested.ring}"
        remedy = more if copies % requested.ring else f"{_nearest(copies // requested.ring, actors)}, or {more}"
        raise InputError(f"placement.{key} = {actors}{ring} cannot share env.num_envs = {copies}: try {remedy}")
    if actors % trainers:
        raise InputError(f"placement.trainers = {trainers} cannot share placement.actors = {actors}: try {trainers}")


def _actors(requested: PlacementConfig) -> int:
    if isinstance(requested.actors, ActorRange):
        return requested.actors.max
    return requested.actors or max(requested.trainers or 1, requested.buffers)


def _nearest(copies: int, actors: int) -> int:
    return min((n for n in range(1, copies + 1) if copies % n == 0), key=lambda n: abs(n - actors))


def lanes_per_batch(experiment: Experiment, lanes: int) -> int:
    """Of all replicas together."""
    actors = experiment.placement.actors
    return lanes // actors.max * actors.min if isinstance(actors, ActorRange) else lanes


def resolve_placement(experiment: Experiment, plans: Collection[PolicyPlan], *, exact: bool) -> PlacementConfig:
    """Fill in what was left out. Who names no actors means one process."""
    requested = experiment.placement
    needs = min((plan.algorithm.needs for plan in plans), key=lambda needs: needs.max_lag)
    trainers, actors = requested.trainers or 1, _actors(requested)
    elastic = isinstance(requested.actors, ActorRange)
    lag = requested.max_lag if requested.max_lag is not None else max(needs.max_lag, requested.buffers and 1)
    agree = requested.agree or Named(name=needs.agree)
    sync = _sync(agree)
    alone = trainers > 1 and not sync.in_step
    if elastic and (trainers > 1 or not lag or requested.exact or requested.inference == "worker"):
        raise InputError(
            "placement.actors = {min, max}: actors that come and go need placement.max_lag of 1 or more, one trainer, "
            "inference: inline, and cannot be exact"
        )
    if requested.exact and alone:
        raise InputError(
            f"placement.exact = true: {agree.name} replicas never agree to the bit; choose agree: allreduce"
        )
    by_default = (exact or lag == 0) and not (alone or elastic or requested.buffers)
    if experiment.env.vector == "processes":  # which copies an answer speaks of is a matter of time too
        by_default = False
    if experiment.curriculum:  # when a stage begins is a matter of time, but in one thread
        by_default = exact
    changes = {
        "trainers": trainers, "actors": requested.actors if elastic else actors, "max_lag": lag, "agree": agree,
        "together": requested.together if requested.together is not None else requested.actors is None and not requested.buffers,
        "exact": requested.exact if requested.exact is not None else by_default, **_devices(requested),
        "threads": 1 if requested.threads == AUTO else requested.threads,
    }  # fmt: skip
    placement = requested.model_copy(update=changes)
    _check_devices(placement, sync)
    _check_buffers(placement, requested, plans)
    return placement


def _devices(requested: PlacementConfig) -> dict[str, str]:
    """By name. `auto` that no probe has decided is whatever is here."""
    device = (accelerator() or CPU) if requested.device == AUTO else requested.device
    return {"device": device, "policy_device": device if requested.policy_device == AUTO else requested.policy_device}


def _check_devices(placement: PlacementConfig, sync: type[ReplicaSync]) -> None:
    if placement.policy_device != CPU and placement.inference != "worker":
        raise InputError(
            f"placement.policy_device = '{placement.policy_device}': actors decide on the CPU; set placement.inference = worker"
        )
    if placement.replay_device != CPU and placement.buffers:
        raise InputError(
            f"placement.replay_device = '{placement.replay_device}': buffer workers replay from the memory of the CPU; "
            "remove placement.buffers"
        )
    if placement.device != CPU and sync.one_machine and resolved(placement.trainers) > 1:
        raise InputError(
            f"placement.device = '{placement.device}': hogwild replicas share memory of the CPU; choose agree: allreduce"
        )


def _sync(agree: Named) -> type[ReplicaSync]:
    cls: type[ReplicaSync] = SYNCS.load(agree.name)
    cls.Config.parse(agree.rest, at="placement.agree")
    return cls


def _check_buffers(placement: PlacementConfig, requested: PlacementConfig, plans: Collection[PolicyPlan]) -> None:
    """Whether replay can be shared out as `placement` says, which follows from what was `requested`."""
    buffers = placement.buffers
    if not buffers:
        return
    said = f"placement.buffers = {buffers}"
    needs = [plan.algorithm.needs.replay for plan in plans if plan.algorithm.needs.replay is not None]
    if not needs:
        raise InputError(f"{said}: nothing is replayed here; remove it")
    if placement.trainers != 1:
        raise InputError(f"{said} is for one trainer: remove placement.trainers")
    if requested.exact or requested.max_lag == 0:
        raise InputError(
            f"{said}: who comes first decides what is drawn, so it is never exact; remove placement.exact and max_lag"
        )
    if not isinstance(placement.actors, int):
        raise InputError(f"{said}: buffer workers are dealt to actors that stay; give placement.actors one number")
    if placement.actors * placement.ring % buffers:
        raise InputError(f"{said} cannot share placement.actors = {placement.actors}: try actors = {buffers}")
    if (fewest := min(replay.sequences for replay in needs)) < buffers:
        raise InputError(f"{said}: a batch has {fewest} sequences, and each buffer gives at least one; try {fewest}")
