"""Which process hosts which workers: a Program laid out for one machine."""

from __future__ import annotations

from typing import Literal, NamedTuple

from shoal.program.program import Program, settled

Kind = Literal["actor", "policy", "trainer", "buffer", "evaluation"]


class Job(NamedTuple):
    """One worker."""

    kind: Kind
    number: int
    """Which actor, which replica of a trainer, which policy worker or buffer worker of a policy."""
    policy: str = ""

    @property
    def name(self) -> str:
        """For people: `actor-0`, `trainer-agent-0`."""
        return "-".join(filter(None, (self.kind, self.policy, str(self.number))))


class Host(NamedTuple):
    """One process and its workers, in the order in which they are polled."""

    name: str
    jobs: tuple[Job, ...]

    def has(self, kind: Kind) -> bool:
        """Whether a worker of that kind lives here."""
        return any(job.kind == kind for job in self.jobs)


def hosts_of(program: Program) -> list[Host]:
    """Trainers first; actors beside their trainer or on their own; a process per policy worker, buffer worker, evaluation."""
    together = settled(program.experiment.placement.together)
    hosts = []
    for rank in range(program.trainers):
        actors = [Job("actor", index) for index in _actors_of(program, rank)] if together else []
        trainers = [Job("trainer", rank, policy) for policy in program.policies]
        hosts.append(Host(_numbered("trainer", rank, program.trainers), (*actors, *trainers)))
    if not together:
        hosts += [Host(f"actor-{index}", (Job("actor", index),)) for index in range(program.actors)]
    if program.experiment.placement.inference == "worker":
        workers = program.experiment.placement.policy_workers
        hosts += [
            Host(f"policy-{policy}-{index}", (Job("policy", index, policy),))
            for policy in program.policies
            for index in range(workers)
        ]
    hosts += [
        Host(f"buffer-{policy}-{index}", (Job("buffer", index, policy),))
        for policy, plan in program.policies.items()
        for index in range(program.shards(plan))
    ]
    if program.experiment.evaluation is not None:
        hosts.append(Host("evaluation", (Job("evaluation", 0),)))
    return hosts


def host_of(hosts: list[Host], job: Job) -> Host:
    """Where a worker lives."""
    return next(host for host in hosts if job in host.jobs)


def clients_of(program: Program, worker: int) -> list[int]:
    """The producers that a policy worker of each policy decides for: whole actors, dealt out in turn."""
    ring, workers = program.experiment.placement.ring, program.experiment.placement.policy_workers
    return [producer for producer in range(program.producers) if producer // ring % workers == worker]


def _actors_of(program: Program, rank: int) -> list[int]:
    ring = program.experiment.placement.ring
    return sorted({producer // ring for producer in program.producers_of(rank)})


def _numbered(name: str, index: int, of: int) -> str:
    return name if of == 1 else f"{name}-{index}"
