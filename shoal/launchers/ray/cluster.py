"""The Ray that is there or is started, what a run asks of it, and what of that fits where."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shoal.api.experiment import Experiment
from shoal.api.program import Process, Program
from shoal.base.errors import InputError, ShoalError
from shoal.launchers.ray.private import TRUST, check_session, own_folder
from shoal.program.expand import expand
from shoal.workers.replica_sync import sync_class

NAMESPACE = "shoal"
HEAD = "node:__internal_head__"
"""The resource by which Ray marks the head node."""
KNOCK = 10.0
"""Seconds that a machine may take to answer at all."""
LOOK = 2.0
"""Seconds between two looks whether the head is there, and that it has to answer."""
OBJECTS = 256 * 1024**2
"""Bytes of the object store of a Ray of our own: one machine needs it for little."""


def require_ray() -> None:
    """Fail with the remedy where the extra is missing."""
    missing = [name for name in ("ray", "lz4") if find_spec(name) is None]
    if missing:
        raise InputError(f"--on ray needs {' and '.join(missing)}: pip install 'shoal[cluster]'")


@contextmanager
def connected(address: str | None, *, cpus: float = 0, working_dir: str | None = None) -> Iterator[None]:
    """Be a driver of the Ray at `address`, or of one of our own that ends with this block."""
    require_ray()
    import ray

    with ExitStack() as stack:
        try:
            if address is None:
                folder = stack.enter_context(own_folder())
                _start_own(max(cpus, os.cpu_count() or 1), folder, _options(working_dir))
            else:
                _knock(address)
                ray.init(address, **_options(working_dir))
            stack.callback(ray.shutdown)
        except (OSError, ray.exceptions.RayError, RuntimeError) as error:
            raise ShoalError(_no_ray(address, error)) from error
        if address is not None:
            check_session()
        yield


def _options(working_dir: str | None) -> dict[str, Any]:
    environment: dict[str, Any] = {"working_dir": working_dir} if working_dir else {}
    if TRUST in os.environ:  # the machines of the cluster ask for it too
        environment["env_vars"] = {TRUST: os.environ[TRUST]}
    return {
        "namespace": NAMESPACE, "log_to_driver": False, "runtime_env": environment or None, "logging_level": "error",
    }  # fmt: skip


def _start_own(cpus: float, folder: Path, options: dict[str, Any]) -> None:
    import ray

    ray.init(
        num_cpus=int(cpus), include_dashboard=False, object_store_memory=OBJECTS, _temp_dir=str(folder / "r"), **options
    )


def _knock(address: str, patience: float = KNOCK) -> None:
    """Ray tries an address for minutes: see first whether anybody is there."""
    from ray._private.services import canonicalize_bootstrap_address

    try:
        hostname, _, port = (canonicalize_bootstrap_address(address) or "").rpartition(":")
        number = int(port)
    except ValueError:
        raise InputError(f"--address = '{address}': write auto, or HOST:PORT as in 10.0.0.1:6379") from None
    try:
        socket.create_connection((hostname.strip("[]"), number), patience).close()
    except OSError as error:
        why = error.strerror or str(error)
        raise ConnectionError(
            f"{why} at {hostname}:{number}; `ray status` on its head node shows whether it runs"
        ) from error


class HeadWatch:
    """Whether Ray's head still answers."""

    def __init__(self) -> None:
        import ray

        self.address: str = ray.get_runtime_context().gcs_address
        self._looked = self._answered = time.monotonic()

    @property
    def lost(self) -> float:
        """Seconds since it answered, if it does not now."""
        if time.monotonic() - self._looked > LOOK:
            self._looked = time.monotonic()
            with suppress(ConnectionError):
                _knock(self.address, LOOK)
                self._answered = self._looked
        return self._looked - self._answered


def _no_ray(address: str | None, error: Exception) -> str:
    """Somebody is there, as was seen: then it is mostly the token."""
    import ray

    cause = " ".join(str(error).split())
    if address is None:
        return f"Ray did not start: {cause}"
    if isinstance(error, ray.exceptions.AuthenticationError) or "Failed to connect" in cause:
        path = os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token"
        return f"the Ray at {address} did not let us in: {path} has to be its token (RAY_AUTH_TOKEN_PATH)"
    return f"there is no Ray at {address}: {cause}"


# ---------------------------------------------------------------- what is asked for


def check_shape(program: Program) -> None:
    """What machines cannot do for each other is an error before anything is started."""
    if program.trainers > 1 and sync_class(program).one_machine:
        raise InputError(
            "placement.agree = 'hogwild' shares memory, which machines cannot: use allreduce or average, or --on local"
        )
    if program.exact and program.experiment.placement.cluster.weights == "fp16":
        raise InputError(
            "placement.cluster.weights = 'fp16' is not exact: use fp32, or placement.exact = false with a lag"
        )


def actor_options(reserved: dict[str, float]) -> dict[str, Any]:
    """The same, as options of a Ray actor."""
    rest = {name: amount for name, amount in reserved.items() if name not in ("CPU", "GPU", "memory")}
    return {
        "num_cpus": reserved.get("CPU", 0),
        "num_gpus": reserved.get("GPU", 0),
        "memory": reserved.get("memory") or None,
        "resources": rest or None,
    }


# ---------------------------------------------------------------- what fits


@dataclass
class Machine:
    """A node of the cluster, and what is free on it."""

    name: str
    head: bool
    free: dict[str, float]


@dataclass
class Fit:
    """Which process would go where, and which finds no place, with the reason."""

    places: dict[str, str]
    homeless: dict[str, str]

    def lines(self) -> list[str]:
        """For people."""
        by_machine: dict[str, list[str]] = {}
        for process, machine in self.places.items():
            by_machine.setdefault(machine, []).append(process)
        lines = [f"{machine}: {', '.join(processes)}" for machine, processes in by_machine.items()]
        return lines + [f"no place for {process}: {why}" for process, why in self.homeless.items()]


def machines() -> list[Machine]:
    """All that live, with what nobody has reserved."""
    import ray
    from ray._private.state import available_resources_per_node

    free = available_resources_per_node()
    return [
        Machine(node["NodeManagerAddress"], HEAD in node["Resources"], dict(free.get(node["NodeID"], {})))
        for node in ray.nodes()
        if node["Alive"]
    ]


def fit(program: Program, found: list[Machine]) -> Fit:
    """Try to place every process, largest first; packed or spread as the experiment asks."""
    config = program.experiment.placement.cluster
    usable = [machine for machine in found if config.head or not machine.head]
    result = Fit({}, {})
    count = {id(machine): 0 for machine in usable}
    for process in sorted(program.processes, key=lambda process: -sum(process.resources.values())):
        requested = process.resources
        able = [m for m in usable if all(m.free.get(name, 0) >= amount for name, amount in requested.items())]
        if not able:
            if process.needed:
                result.homeless[process.name] = _why(requested, usable)
            continue
        chosen = min(able, key=lambda m: count[id(m)] if config.strategy == "spread" else -count[id(m)])
        count[id(chosen)] += 1
        result.places[process.name] = chosen.name
        for name, amount in requested.items():
            chosen.free[name] -= amount
    return result


def _why(requested: dict[str, float], usable: list[Machine]) -> str:
    if not usable:
        return "there is no machine but the head node, and placement.cluster.head is false"
    lacking = {
        name: max(machine.free.get(name, 0) for machine in usable)
        for name, amount in requested.items()
        if all(machine.free.get(name, 0) < amount for machine in usable)
    }
    if not lacking:
        return (
            "no machine has all of " + ", ".join(f"{amount:g} {name}" for name, amount in requested.items()) + " left"
        )
    return ", ".join(
        f"it asks for {requested[name]:g} {name}, at most {left:g} is left" for name, left in lacking.items()
    )


def holds(requested: dict[str, float], *, head: bool) -> int:
    """How many processes with these resources the cluster holds while nobody else uses it; of those without cores, one per core."""
    counted = {**requested, "CPU": requested.get("CPU") or 1.0}
    return sum(
        int(min(machine.free.get(name, 0) / amount for name, amount in counted.items()) + 1e-6)
        for machine in _totals()
        if head or not machine.head
    )


def no_room(requested: dict[str, float], *, head: bool, free: bool) -> str:
    """Why no machine takes such a process; empty: one does. `free`: as things are now, or if nobody else used the cluster."""
    usable = [machine for machine in (machines() if free else _totals()) if head or not machine.head]
    if any(all(machine.free.get(name, 0) >= amount for name, amount in requested.items()) for machine in usable):
        return ""
    return _why(requested, usable)


def _totals() -> list[Machine]:
    """All machines that live, with what they have, whoever uses it."""
    import ray

    return [
        Machine(node["NodeManagerAddress"], HEAD in node["Resources"], dict(node["Resources"]))
        for node in ray.nodes()
        if node["Alive"]
    ]


def reserve(program: Program, run: str) -> Any:
    """A placement group with a bundle per process; what is not there after `placement.cluster.wait` is an error that says why."""
    from ray.util import placement_group, remove_placement_group

    config = program.experiment.placement.cluster
    needed = [process for process in program.processes if process.needed]
    where = [labels(program, process) for process in needed]
    group = placement_group(
        [process.resources or {"CPU": 0.001} for process in needed],
        strategy=config.strategy.upper(),
        name=run,
        **({"bundle_label_selector": where} if any(where) else {}),
    )
    if not group.wait(config.wait):
        remove_placement_group(group)
        raise InputError(
            f"no place for this run within placement.cluster.wait = {config.wait:g} s: "
            + "; ".join(fit(program, machines()).lines())
        )
    return group


def labels(program: Program, process: Process) -> dict[str, str]:
    """Which machines are asked for. Called on the controller's."""
    import ray

    if process.at_home:
        return {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
    return {} if program.experiment.placement.cluster.head else not_on_head()


def not_on_head() -> dict[str, str]:
    """The label by which a machine is asked for that is not the head node."""
    import ray

    head = next((node["NodeID"] for node in ray.nodes() if HEAD in node["Resources"]), "none")
    return {"ray.io/node-id": f"!{head}"}


def fill_placement(experiment: Experiment, cpus: float) -> Experiment:
    """An experiment that names no shape gets an actor for each core of the cluster but the trainer's, as far as copies divide."""
    placement, copies = experiment.placement, experiment.env.num_envs
    if (placement.actors, placement.trainers, placement.together) != (None, None, None):
        return experiment
    trainer = max(placement.cluster.trainer.cpus, placement.threads if isinstance(placement.threads, int) else 0)
    room = max(1, int((cpus - trainer) / max(placement.cluster.actor.cpus, 1e-3)))
    actors = max(n for n in range(1, min(room, copies) + 1) if copies % (n * placement.ring) == 0)
    return experiment.model_copy(update={"placement": placement.model_copy(update={"actors": actors})})


def plan_fit(experiment: Experiment, address: str | None) -> tuple[Experiment, Fit]:
    """The experiment with its shape filled in, and which process would go where: on the Ray at `address`, or on one of our own."""
    if address is None:
        experiment = fill_placement(experiment, os.cpu_count() or 1)
        program = expand(experiment, exact=False)
        check_shape(program)
        free: dict[str, float] = {}
        for process in program.processes:
            requested = process.resources
            free = {name: free.get(name, 0) + requested.get(name, 0) for name in {*free, *requested}}
        free |= {name: 0.0 for name in free if name not in ("CPU", "memory")}
        return experiment, fit(program, [Machine("this machine", True, free)])
    with connected(address):
        import ray

        experiment = fill_placement(experiment, ray.cluster_resources().get("CPU", 1))
        program = expand(experiment, exact=False)
        check_shape(program)
        return experiment, fit(program, machines())
