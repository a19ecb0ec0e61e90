"""Which process has which workers, and which streams join them: asked of the worker specs, kind by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shoal.api.cluster import ResourcesConfig
from shoal.api.experiment import Experiment
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import (
    CONTROLLER,
    MailboxShape,
    MailboxStream,
    Port,
    Process,
    Program,
    RingShape,
    RingStream,
    SharedShape,
    SharedStream,
    Stream,
    TallyShape,
    TallyStream,
    WorkerSpec,
    load_kind,
)
from shoal.base.device import CPU
from shoal.base.errors import InputError
from shoal.streams import names
from shoal.streams.control import ORDERS
from shoal.workers import WORKERS


def lay_out(
    program: Program, plans: Mapping[str, PolicyPlan], kinds: Sequence[type[WorkerSpec]] | None = None
) -> Program:
    """The Program with its processes and streams. `kinds`: of the workers that it has; left out: all that there are."""
    found = kinds_of(program.experiment) if kinds is None else kinds
    placed = replace(program, processes=tuple(_processes(program, found)))
    return replace(placed, streams=_streams(placed, plans))


def kinds_of(experiment: Experiment) -> list[type[WorkerSpec]]:
    """All kinds: Shoal's own, and the user's."""
    own = [WORKERS.load(name) for name in WORKERS.entries]
    return own + [load_kind(target, name, f"workers.{name}") for name, target in experiment.workers.items()]


def _processes(program: Program, kinds: Sequence[type[WorkerSpec]]) -> Iterator[Process]:
    """Those with trainers first. A worker with neighbours is polled in the order of its kind's rank."""
    placed: dict[str, list[WorkerSpec]] = {}
    for kind in kinds:
        for spec in kind.place(program):
            placed.setdefault(spec.process(program), []).append(spec)
    seen = [spec.name for specs in placed.values() for spec in specs]
    if twice := [name for name in seen if seen.count(name) > 1]:
        raise InputError(f"workers.{twice[0]}: there is a worker of that name already; choose another")
    first = sorted(placed, key=lambda name: -max(spec.leads for spec in placed[name]))
    for name in first:
        specs = sorted(placed[name], key=lambda spec: spec.rank_in_process)
        leading = max(specs, key=lambda spec: spec.leads)
        yield Process(
            name, tuple(specs), bundle(leading.resources(program)),
            fate=next((fate for spec in specs if (fate := spec.fate(program))), ""),
            needed=any(spec.needed(program) for spec in specs), pinned=any(spec.pinned for spec in specs),
            at_home=any(spec.at_home for spec in specs),
            device=next((name for spec in specs if (name := spec.device(program)) != CPU), CPU),
            threads=max(spec.threads(program) for spec in specs),
        )  # fmt: skip


def bundle(requested: ResourcesConfig) -> dict[str, float]:
    """What a cluster reserves, by the names that Ray has for it."""
    named = {"CPU": requested.cpus, "GPU": requested.gpus, "memory": float(requested.memory), **requested.custom}
    return {name: amount for name, amount in named.items() if amount}


def _streams(program: Program, plans: Mapping[str, PolicyPlan]) -> dict[str, Stream]:
    """Ports of the same name are the ends of one stream."""
    ends: dict[str, list[tuple[str, Port]]] = {}
    for process in program.processes:
        ends[names.orders(process.name)] = [
            (process.name, Port(names.orders(process.name), "read", ORDERS, from_controller=True))
        ]
        for spec in process.workers:
            for port in spec.ports(program, plans):
                ends.setdefault(port.stream, []).append((process.name, port))
    return {name: _stream(name, found) for name, found in ends.items()}


def _stream(name: str, ends: list[tuple[str, Port]]) -> Stream:
    shape = next((port.shape for _, port in ends if port.shape is not None), None)
    writers = list(dict.fromkeys(process for process, port in ends if port.end == "write"))
    readers = tuple(dict.fromkeys(process for process, port in ends if port.end == "read"))
    if any(port.from_controller for _, port in ends):
        writers.append(CONTROLLER)
    if shape is None or not writers:
        raise InputError(f"workers: nobody writes the stream '{name}', which {', '.join(readers)} reads")
    match shape:
        case RingShape(layout, slots, counted):
            if len(writers) != 1 or len(readers) != 1:
                raise InputError(f"workers: the ring '{name}' needs one writer and one reader: {writers} -> {readers}")
            return RingStream(layout, slots, writers[0], readers[0], counted)
        case MailboxShape():
            return MailboxStream(writer=writers[0], readers=readers, **_fields(shape))
        case TallyShape(nbytes):
            return TallyStream(nbytes, tuple(writers))
        case SharedShape(nbytes, beside):
            return SharedStream(nbytes, beside, tuple(writers), readers)


def _fields(shape: Any) -> dict[str, Any]:
    return dict(vars(shape))
