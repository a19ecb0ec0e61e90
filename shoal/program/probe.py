"""`placement: auto`: which shape suits this machine, by a short probe.

Everything in one process; actors beside a trainer; or an actor and a trainer in every process, in step. What is measured is how
long one round takes to sample and to learn from, whole and in shares; the rest is arithmetic. The answer goes into `config.yaml`.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import NamedTuple

from shoal.api.experiment import Experiment, PlacementConfig
from shoal.api.messages import Episodes
from shoal.api.program import Program, resolved
from shoal.api.worker import Heartbeat, Worker
from shoal.base.device import AUTO, CPU, accelerator
from shoal.base.errors import InputError
from shoal.envs.curriculum import check_stages
from shoal.program.env_facts import EnvFacts, inspect_env
from shoal.program.expand import expand
from shoal.rollout.plans import Plans
from shoal.streams import names
from shoal.streams.gate import GateKeeper
from shoal.streams.stream_set import MemoryStreams
from shoal.workers.actor import ActorSpec
from shoal.workers.context import Context, Life
from shoal.workers.replica_sync import SYNCS
from shoal.workers.trainer import TrainerSpec

STARTING = 2.0
"""Seconds that it takes until processes work."""
WORTH = 0.85
"""A shape with more processes must need less than this part of the time."""
MAKING = 60.0
"""Seconds that environments may take to be made, on top of `env.timeout`."""
LONG = 2.0
"""Seconds after which a probe goes by the round it has."""

ENDLESS = 1e9
"""Rounds of a run that neither steps nor updates end: a number, since infinite times cannot be compared."""


@dataclass(frozen=True)
class Shape:
    """A placement, and the seconds that a round would take."""

    words: str
    changes: dict[str, object]
    seconds: float
    processes: bool = True

    def __str__(self) -> str:
        return f"{self.words} ({1000 * self.seconds:.0f} ms a round)"

    def total(self, rounds: float) -> float:
        """Of the whole run."""
        return self.seconds * rounds + (STARTING if self.processes else 0.0)


class Survey(NamedTuple):
    """What is known of an experiment once its environment was opened."""

    experiment: Experiment
    """With a placement."""
    facts: EnvFacts
    why: str | None
    """A line that says why that placement."""


def survey(heartbeat: Heartbeat, experiment: Experiment, *, place: bool) -> Survey:
    """Open the environment and look; `place`: choose a placement where the experiment leaves it open."""
    heartbeat.begin(MAKING, in_env=True)
    check_stages(experiment)
    facts = inspect_env(experiment)
    heartbeat.rest()
    experiment, device = choose_device(experiment, facts, heartbeat)
    if not place:
        return Survey(experiment, facts, device)
    chosen, why = choose_placement(experiment, facts, heartbeat)
    return Survey(chosen, facts, "; ".join(filter(None, (device, why))) or None)


def choose_device(experiment: Experiment, facts: EnvFacts, heartbeat: Heartbeat) -> tuple[Experiment, str | None]:
    """The experiment with a device in the place of `auto`, and a line that says why: an accelerator must be worth it."""
    placement, kind = experiment.placement, accelerator()
    if placement.device != AUTO:
        return experiment, None

    def on(name: str) -> Experiment:
        return experiment.model_copy(update={"placement": placement.model_copy(update={"device": name})})

    if kind is None:
        return on(CPU), "placement.device: cpu, there is no accelerator here"
    here, there = (_measure(expand(on(name), facts=facts), heartbeat)[1] for name in (CPU, kind))
    chosen = kind if there < WORTH * here else CPU
    times = f"a round is learned from in {1000 * there:.0f} ms on {kind}, in {1000 * here:.0f} ms on the CPU"
    return on(chosen), f"placement.device: {chosen}, {times}"


def choose_placement(
    experiment: Experiment, facts: EnvFacts | None = None, heartbeat: Heartbeat | None = None
) -> tuple[Experiment, str | None]:
    """The experiment with a shape chosen, and a line that says why; as it is where it names one itself."""
    placement, cores = experiment.placement, len(os.sched_getaffinity(0))
    if placement.buffers or (placement.actors, placement.trainers, placement.together) != (None, None, None):
        return experiment, None
    facts = facts or inspect_env(experiment)
    program = expand(experiment, facts=facts)
    if placement.inference == "worker":
        return _placed(experiment, {"actors": _divisor(program, max(1, cores - 1))}), None
    if not SYNCS.load(resolved(program.experiment.placement.agree).name).in_step:
        return _placed(experiment, {"trainers": _divisor(program, cores)}), None
    if cores == 1 or _divisor(program, cores) == 1:
        return _placed(experiment, {"trainers": 1}), None
    shapes = _shapes(program, cores, facts, heartbeat or Heartbeat())
    rounds = _rounds(program)
    best = shapes[0]
    for shape in shapes[1:]:
        if shape.total(rounds) < WORTH * best.total(rounds):
            best = shape
    return _placed(experiment, best.changes), _reason(shapes, best, rounds)


def _reason(shapes: list[Shape], best: Shape, rounds: float) -> str:
    """Why it was chosen. What more processes save of a round they have to earn back: they take a while to start."""
    if len(shapes) == 1:
        return f"placement: {best}: the run is too short to pay for more processes"
    others = [shape for shape in shapes if shape is not best]
    if best.processes:
        return f"placement: {best}, instead of {', '.join(map(str, others))}"
    least = min(shape.total(rounds) / best.total(rounds) for shape in others)
    saved = f"save {1 - least:.0%} of this run" if least < 1 else "save nothing"
    needed = f"less than the {1 - WORTH:.0%} that processes must be worth" if least < 1 else "starting them included"
    return f"placement: {best}; {', '.join(map(str, others))} would {saved}, {needed}"


def _shapes(program: Program, cores: int, facts: EnvFacts, heartbeat: Heartbeat) -> list[Shape]:
    """Simple ones first. A run too short to pay for processes is not measured further."""
    short = STARTING / (1 - WORTH)
    sample, train = _measure(program, heartbeat, short / _rounds(program))
    shapes = [Shape("one process", {"trainers": 1}, sample + train, processes=False)]
    if shapes[0].total(_rounds(program)) < short:
        return shapes
    if program.max_lag:
        actors = _divisor(program, cores - 1)
        beside = Shape(
            f"{actors} actor{'s' * (actors > 1)} beside the trainer", {"actors": actors}, max(sample / actors, train)
        )
        shapes.append(beside)
    replicas = _divisor(program, cores)
    try:
        shared = expand(_placed(program.experiment, {"trainers": replicas}), facts=facts)
    except InputError:  # a minibatch that cannot be shared out, for example
        return shapes
    shapes.append(
        Shape(f"{replicas} actors with trainers in step", {"trainers": replicas}, sum(_measure(shared, heartbeat)))
    )
    return shapes


def _rounds(program: Program) -> float:
    """How many the run has at most."""
    stop = program.experiment.stop
    batch = program.experiment.env.num_envs * _unroll(program)
    return min(stop.updates or ENDLESS, stop.steps / batch if stop.steps else ENDLESS)


def _divisor(program: Program, most: int) -> int:
    """The largest number of equal shares of the env copies, up to `most`."""
    copies = program.experiment.env.num_envs // program.experiment.placement.ring
    return max(n for n in range(1, max(1, most) + 1) if copies % n == 0)


def _placed(experiment: Experiment, changes: dict[str, object]) -> Experiment:
    fields = {"actors": None, "trainers": None, "together": None, **changes}
    placement = PlacementConfig.parse({**experiment.placement.model_dump(), **fields}, at="placement")
    return experiment.model_copy(update={"placement": placement})


# ---------------------------------------------------------------- measuring


def _measure(program: Program, heartbeat: Heartbeat, enough: float = 0.0) -> tuple[float, float]:
    """Seconds of a round of the first replica, which has nobody to agree with, and its actors: to sample, to learn from it.

    The second round counts, since the first warms up; where already the first takes less than `enough`, there is no second.
    """
    streams = MemoryStreams(program)
    life = Life(starts=dict.fromkeys(program.learners, 0))
    context = Context(program, Plans(program), streams, life, heartbeat, alone=True)
    heartbeat.begin(MAKING, in_env=True)
    for policy in program.learners:
        GateKeeper(streams.mailbox(names.gate(policy, 0))).open(2)
    with ExitStack() as stack:
        mine = [spec for spec in program.workers if isinstance(spec, TrainerSpec) and spec.rank == 0]
        trainers: list[Worker] = [stack.enter_context(closing(spec.build(context))) for spec in mine]
        of_mine = [spec for spec in program.workers if isinstance(spec, ActorSpec) and _feeds_first(program, spec)]
        actors: list[Worker] = [stack.enter_context(closing(spec.build(context))) for spec in of_mine]
        steps = sum(len(spec.producers(program)) for spec in of_mine) * program.envs_per_producer * _unroll(program)
        sample, train = _round(actors, trainers, steps)
        if enough <= sample + train < LONG:
            sample, train = _round(actors, trainers, steps)
    return sample, train


def _unroll(program: Program) -> int:
    return max(program.policies[name].facts.unroll for name in program.learners)


def _feeds_first(program: Program, spec: ActorSpec) -> bool:
    return program.rank_of(spec.producers(program)[0]) == 0


def _round(actors: list[Worker], trainers: list[Worker], steps: int) -> tuple[float, float]:
    """Of a round that takes longer than anybody wants to wait for, a part is sampled; learning then hardly counts."""
    began, taken = time.perf_counter(), 0
    for actor in actors:
        while said := actor.poll(0.0):
            taken += sum(message.steps for message in said if isinstance(message, Episodes))
            if (passed := time.perf_counter() - began) > LONG and taken < steps:
                return passed * steps / max(1, taken), 0.0
    sampled = time.perf_counter()
    for trainer in trainers:
        trainer.poll(0.0)
    return sampled - began, time.perf_counter() - sampled
