"""How long a round takes, to sample and to learn from: measured for a probe, in one process, without any of the others.

What is measured is the first replica and its actors. A run that replays learns here from its first round on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from shoal.api.messages import Episodes
from shoal.api.program import Program
from shoal.api.worker import Heartbeat, Worker
from shoal.rollout.plans import Plans
from shoal.streams import names
from shoal.streams.gate import GateKeeper
from shoal.streams.stream_set import MemoryStreams
from shoal.workers.actor import ActorSpec
from shoal.workers.context import Context, Life
from shoal.workers.trainer import TrainerSpec, TrainerWorker

MAKING = 60.0
"""Seconds that environments may take to be made, on top of `env.timeout`."""
LONG = 2.0
"""Seconds after which a probe goes by the round it has."""
MEASURED = 0.1
"""Seconds of rounds that count: of short ones, many."""
TURNS = 4
"""Rounds of every number of threads, of which the first wakes them."""
OPEN = 1 << 62
"""Updates that a trainer may make."""


class Cost(NamedTuple):
    """Seconds of one round."""

    sample: float
    train: float
    step: float = 0.0
    """Of the learning, one step of an optimiser."""
    waited: float = 0.0
    """Of `sample`: this process had nothing to do, since environments slept or waited for somebody else."""

    @property
    def whole(self) -> float:
        """One after the other."""
        return self.sample + self.train


class Bench(NamedTuple):
    """Workers to be measured."""

    actors: list[Worker]
    trainers: list[TrainerWorker]
    steps: int
    """Of the environments, in a round."""
    signs: Signs


class Signs(Heartbeat):
    """Passes signs of life on, and counts those of a trainer: one with every step of an optimiser."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._heartbeat, self.count = heartbeat, 0

    def begin(self, seconds: float, *, in_env: bool) -> None:
        self._heartbeat.begin(seconds, in_env=in_env)

    def beat(self) -> None:
        self._heartbeat.beat()

    def between(self) -> None:
        self._heartbeat.between()

    def rest(self) -> None:
        self._heartbeat.rest()
        self.count += 1


def measure(program: Program, heartbeat: Heartbeat, enough: float = 0.0) -> Cost:
    """Of the mean round. The first does not count, since it warms up; where already that takes less than `enough`, it does."""
    with _bench(program, heartbeat) as bench:
        rounds = [play_round(bench)]
        if not enough <= rounds[0].whole < LONG:
            return rounds[0]
        while sum(each.whole for each in rounds[1:]) < MEASURED and (cost := play_round(bench)).whole:
            rounds.append(cost)
    counted = rounds[1:] or rounds
    return Cost(*(sum(part) / len(counted) for part in zip(*counted, strict=True)))


def measure_threads(program: Program, heartbeat: Heartbeat, counts: Sequence[int]) -> dict[int, float]:
    """Seconds of learning from a round, by the threads of its trainers.

    In turns, and the least of each: whatever disturbs only takes longer. Where rounds are long the first turn has to do.
    """
    least: dict[int, float] = {}
    began = time.perf_counter()
    with _bench(program, heartbeat) as bench:
        play_round(bench)
        for turn in range(TURNS):
            for count in counts:
                for trainer in bench.trainers:
                    trainer.threads = count
                seconds = play_round(bench).train
                least[count] = seconds if turn < 2 else min(least[count], seconds)
            if time.perf_counter() - began > LONG:
                break
    return least


@contextmanager
def _bench(program: Program, heartbeat: Heartbeat) -> Iterator[Bench]:
    """The first replica of every trainer, which has nobody to agree with, and its actors."""
    streams, signs = MemoryStreams(program), Signs(heartbeat)
    life = Life(starts=dict.fromkeys(program.learners, 0))
    context = Context(program, Plans(program), streams, life, signs, alone=True)
    heartbeat.begin(MAKING, in_env=True)
    for policy in program.learners:
        GateKeeper(streams.mailbox(names.gate(policy, 0))).open(OPEN)
    with ExitStack() as stack:
        mine = [spec for spec in program.workers if isinstance(spec, TrainerSpec) and spec.rank == 0]
        trainers = [stack.enter_context(closing(spec.build(context))) for spec in mine]
        of_mine = [spec for spec in program.workers if isinstance(spec, ActorSpec) and _feeds_first(program, spec)]
        actors: list[Worker] = [stack.enter_context(closing(spec.build(context))) for spec in of_mine]
        producers = sum(len(spec.producers(program)) for spec in of_mine)
        yield Bench(actors, trainers, producers * program.envs_per_producer * unroll_of(program), signs)


def unroll_of(program: Program) -> int:
    """Steps of every copy in a round."""
    return max(program.policies[name].facts.unroll for name in program.learners)


def _feeds_first(program: Program, spec: ActorSpec) -> bool:
    return program.rank_of(spec.producers(program)[0]) == 0


def play_round(bench: Bench) -> Cost:
    """Of a round that takes longer than anybody wants to wait for, a part is sampled; learning then hardly counts. Nothing, where
    nobody can go on."""
    began, busy, taken = time.perf_counter(), _busy(), 0
    for actor in bench.actors:
        while said := actor.poll(0.0):
            taken += sum(message.steps for message in said if isinstance(message, Episodes))
            if (passed := time.perf_counter() - began) > LONG and taken < bench.steps:
                waited, whole = max(0.0, passed - (_busy() - busy)), bench.steps / max(1, taken)
                return Cost(passed * whole, 0.0, waited=waited * whole)
    sampled, before = time.perf_counter(), bench.signs.count
    waited = max(0.0, sampled - began - (_busy() - busy))
    for trainer in bench.trainers:
        trainer.poll(0.0)
    learned, updates = time.perf_counter() - sampled, bench.signs.count - before
    if not (taken or updates):
        return Cost(0.0, 0.0)
    return Cost(sampled - began, learned, learned / max(1, updates), waited)


def _busy() -> float:
    """Seconds that this process has computed so far, or would have, had other processes not been in its way."""
    with suppress(OSError, ValueError, IndexError):  # not every kernel tells
        return time.process_time() + int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    return time.process_time()
