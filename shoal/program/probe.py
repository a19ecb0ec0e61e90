"""`placement: auto`: which shape suits this machine, by a short probe.

Everything in one process; actors beside a trainer; or an actor and a trainer in every process, in step; and threads of a trainer
that would otherwise leave cores idle. What is measured is how long one round takes to sample and to learn from, whole, in shares
and by threads; the rest is arithmetic. The answer goes into `config.yaml`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

from shoal.api.experiment import Experiment, PlacementConfig
from shoal.api.program import Program, resolved
from shoal.api.worker import Heartbeat
from shoal.base.device import AUTO, CPU, accelerator
from shoal.base.errors import InputError
from shoal.envs.curriculum import check_stages
from shoal.program.env_facts import EnvFacts, inspect_env
from shoal.program.expand import expand
from shoal.program.measuring import MAKING, measure, measure_threads, unroll_of
from shoal.workers.replica_sync import SYNCS

STARTING = 2.0
"""Seconds that it takes until processes work."""
WORTH = 0.85
"""A shape with more processes or threads must need less than this part of the time."""
SHORT = STARTING / (1 - WORTH)
"""Seconds of a run that processes cannot pay for themselves in."""
COSTLY = 1e-3
"""Seconds of an optimiser's step from which on it is worth a look whether threads share it out."""

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
    experiment, background = choose_background(experiment, facts, heartbeat)
    chosen, why = choose_placement(experiment, facts, heartbeat)
    return Survey(chosen, facts, "; ".join(filter(None, (device, background, why))) or None)


def choose_device(experiment: Experiment, facts: EnvFacts, heartbeat: Heartbeat) -> tuple[Experiment, str | None]:
    """The experiment with a device in the place of `auto`, and a line that says why: an accelerator must be worth it."""
    placement, kind = experiment.placement, accelerator()
    if placement.device != AUTO:
        return experiment, None

    def on(name: str) -> Experiment:
        return experiment.model_copy(update={"placement": placement.model_copy(update={"device": name})})

    if kind is None:
        return on(CPU), "placement.device: cpu, there is no accelerator here"
    here, there = (measure(expand(on(name), facts=facts), heartbeat).train for name in (CPU, kind))
    chosen = kind if there < WORTH * here else CPU
    times = f"a round is learned from in {1000 * there:.0f} ms on {kind}, in {1000 * here:.0f} ms on the CPU"
    return on(chosen), f"placement.device: {chosen}, {times}"


def choose_background(experiment: Experiment, facts: EnvFacts, heartbeat: Heartbeat) -> tuple[Experiment, str | None]:
    """The experiment with `env.background` in the place of none, and a line that says why: the Envs of a ring must wait enough."""
    ring = experiment.placement.ring
    if experiment.env.background is not None or ring == 1:
        return experiment, None
    measured = measure(expand(_placed(experiment, {"trainers": 1, "inference": "inline"}), facts=facts), heartbeat)
    waits = measured.waited / measured.sample
    pays = waits * (1 - 1 / ring) > 1 - WORTH  # what they wait for, they then wait for together
    env = experiment.env.model_copy(update={"background": pays})
    line = f"env.background: {str(pays).lower()}, environments wait for {waits:.0%} of the time that a round takes to sample"
    return experiment.model_copy(update={"env": env}), line


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
    if cores == 1:
        return _placed(experiment, {"trainers": 1}), None
    free = placement.threads == AUTO and not placement.exact and program.experiment.placement.device == CPU
    shapes = _shapes(program, cores, facts, heartbeat or Heartbeat(), free=free)
    rounds = _rounds(program)
    best = _best(shapes, rounds)
    return _placed(experiment, best.changes), _reason(shapes, best, rounds)


def _best(shapes: list[Shape], rounds: float) -> Shape:
    """Each must be worth it, compared with the simpler ones before it."""
    best = shapes[0]
    for shape in shapes[1:]:
        if shape.total(rounds) < WORTH * best.total(rounds):
            best = shape
    return best


def _reason(shapes: list[Shape], best: Shape, rounds: float) -> str:
    """Why it was chosen. What more processes save of a round they have to earn back: they take a while to start."""
    if len(shapes) == 1:
        short = best.total(rounds) < SHORT
        why = "the run is too short to pay for more processes" if short else "there is nothing to share out"
        return f"placement: {best}: {why}"
    others = [shape for shape in shapes if shape is not best]
    if best is not shapes[0]:
        return f"placement: {best}, instead of {', '.join(map(str, others))}"
    least = min(shape.total(rounds) / best.total(rounds) for shape in others)
    saved = f"save {1 - least:.0%} of this run" if least < 1 else "save nothing"
    kinds = " or ".join(dict.fromkeys("processes" if shape.processes else "threads" for shape in others))
    starting = f"starting {'them' if kinds == 'processes' else 'processes'} included"
    needed = f"less than the {1 - WORTH:.0%} that {kinds} must be worth" if least < 1 else starting
    return f"placement: {best}; {', '.join(map(str, others))} would {saved}, {needed}"


def _shapes(program: Program, cores: int, facts: EnvFacts, heartbeat: Heartbeat, *, free: bool) -> list[Shape]:
    """Simple ones first. A run too short to pay for processes is not measured further. `free`: threads may be chosen too."""
    rounds, given = _rounds(program), program.threads
    cost = measure(program, heartbeat, SHORT / rounds)
    shapes = [Shape(f"one process{_with(given)}", {"trainers": 1}, cost.whole, processes=False)]
    if shapes[0].total(rounds) < SHORT:
        return shapes
    learning = {given: cost.train}
    if free and cost.step >= COSTLY:
        learning |= _shared_out(cost.train, measure_threads(program, heartbeat, _counts(cores)))
    threaded = [_threaded(count, cost.sample + learn) for count, learn in learning.items() if count != given]
    shapes += [_best(threaded, rounds)] if threaded else []
    if program.max_lag:
        room = {count: learn for count, learn in learning.items() if count < cores} or learning
        shapes.append(
            _best([_beside(program, cores, count, cost.sample, learn) for count, learn in room.items()], rounds)
        )
    if (replicas := _divisor(program, cores // given)) == 1:
        return shapes
    try:
        shared = expand(_placed(program.experiment, {"trainers": replicas}), facts=facts)
    except InputError:  # a minibatch that cannot be shared out, for example
        return shapes
    words = f"{replicas} actors with trainers in step{_with(given)}"
    return [*shapes, Shape(words, {"trainers": replicas}, measure(shared, heartbeat).whole)]


def _counts(cores: int) -> list[int]:
    """Of threads that are compared: 1, 2, 4 and so on, and as many as there are cores."""
    return [*(1 << power for power in range(cores.bit_length()) if 1 << power < cores), cores]


def _shared_out(alone: float, measured: dict[int, float]) -> dict[int, float]:
    """Seconds by threads, of the `alone` seconds that one thread takes in the mean: `measured` are the least."""
    return {count: alone * seconds / measured[1] for count, seconds in measured.items() if count > 1}


def _threaded(count: int, seconds: float) -> Shape:
    return Shape(f"one process{_with(count)}", {"trainers": 1, "threads": count}, seconds, processes=False)


def _beside(program: Program, cores: int, threads: int, sample: float, learn: float) -> Shape:
    """Actors on the cores that a trainer's threads leave them."""
    actors = _divisor(program, cores - threads)
    words = f"{actors} actor{'s' * (actors > 1)} beside the trainer{_with(threads)}"
    return Shape(words, {"actors": actors, "threads": threads}, max(sample / actors, learn))


def _with(threads: int) -> str:
    return f", {threads} threads" if threads > 1 else ""


def _rounds(program: Program) -> float:
    """How many the run has at most."""
    stop = program.experiment.stop
    batch = program.experiment.env.num_envs * unroll_of(program)
    return min(stop.updates or ENDLESS, stop.steps / batch if stop.steps else ENDLESS)


def _divisor(program: Program, most: int) -> int:
    """The largest number of equal shares of the env copies, up to `most`."""
    copies = program.experiment.env.num_envs // program.experiment.placement.ring
    return max(n for n in range(1, max(1, most) + 1) if copies % n == 0)


def _placed(experiment: Experiment, changes: dict[str, object]) -> Experiment:
    fields = {"actors": None, "trainers": None, "together": None, **changes}
    placement = PlacementConfig.parse({**experiment.placement.model_dump(), **fields}, at="placement")
    return experiment.model_copy(update={"placement": placement})
