"""The named streams that join the workers of a Program: planned here, once, then made of memory or of shared memory.

sample/<producer>/<policy>    ring      actor -> trainer, or buffer worker
batch/<shard>/<policy>        ring      buffer worker -> trainer
priority/<shard>/<policy>     ring      trainer -> buffer worker
ask/... and answer/...        rings     actor <-> policy worker
version/<policy>              mailbox   trainer -> whoever acts
leave/<policy>/<rank>         mailbox   controller -> trainer
contents                      mailbox   controller -> all others: the version whose checkpoint shall hold what they hold
stage                         mailbox   controller -> actor: the stage of the curriculum that the run is in
evaluate                      mailbox   controller -> evaluation worker: the version that is due, and nothing else
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shoal.algorithms.agreement import nbytes_beside, tally_nbytes
from shoal.api.experiment import PastConfig
from shoal.program.contents import CONTENTS, saves_contents
from shoal.program.hosts import Host, Job, clients_of, host_of
from shoal.program.program import Program
from shoal.program.shards import shard_of
from shoal.program.stages import STAGE
from shoal.streams import batch, inference_rings, leave
from shoal.streams.plans import BoxPlan, RingPlan, SharedPlan, TallyPlan, Wiring


def plan_wiring(program: Program, hosts: list[Host]) -> Wiring:
    """Which streams there are, how large, and who uses them."""
    wiring = Wiring(replicas=tuple(host.name for host in hosts if host.has("trainer")))
    for policy, plan in program.policies.items():
        layout = plan.layout(program.producers)
        for producer in range(program.producers):
            keeper = Job("trainer", program.rank_of(producer), policy)
            if program.shards(plan):
                keeper = Job("buffer", shard_of(program, producer), policy)
            wiring.rings[f"sample/{producer}/{policy}"] = RingPlan(
                layout, program.slots, _actor_of(program, hosts, producer), host_of(hosts, keeper).name, counted=True
            )
        everyone, nbytes = _players(hosts), plan.algorithm.flat.nbytes
        if program.hogwild:
            beside = nbytes_beside(plan.algorithm)
            wiring.shared[f"version/{policy}"] = SharedPlan(nbytes, program.trainers, beside, everyone)
        else:
            wiring.boxes[f"version/{policy}"] = BoxPlan(nbytes, program.slots, everyone, _writer_of(hosts, policy))
        if program.trainers > 1 and not program.hogwild:
            wiring.tallies[f"tally/{policy}"] = TallyPlan(program.trainers, tally_nbytes(plan.algorithm), everyone)
        for rank in range(program.trainers):
            trainer = host_of(hosts, Job("trainer", rank, policy)).name
            wiring.boxes[f"leave/{policy}/{rank}"] = BoxPlan(leave.NBYTES, 1, (trainer,))
    wiring.rings.update(_inference_rings(program, hosts))
    wiring.rings.update(_replay_rings(program, hosts))
    wiring.boxes.update(_past_boxes(program, hosts))
    if saves_contents(program):
        wiring.boxes[CONTENTS] = BoxPlan(8, 1, _players(hosts))
    if program.experiment.curriculum:
        wiring.boxes[STAGE] = BoxPlan(1, 1, _players(hosts))
    if judges := tuple(host.name for host in hosts if host.has("evaluation")):
        wiring.boxes["evaluate"] = BoxPlan(1, 1, judges)
    return wiring


def _writer_of(hosts: list[Host], policy: str) -> str:
    """Who publishes the versions of a policy."""
    return host_of(hosts, Job("trainer", 0, policy)).name


def _past_boxes(program: Program, hosts: list[Host]) -> Iterator[tuple[str, BoxPlan]]:
    """A version that somebody may meet stays until nobody can: some more are kept than are met."""
    for name, plan in program.players.items():
        past = plan.role.config.past
        if past is not None:
            nbytes = program.policies[past.of].algorithm.flat.nbytes
            versions = past.keep + past_slack(program, past) + 1
            yield f"past/{name}", BoxPlan(nbytes, versions, _players(hosts), _writer_of(hosts, past.of), every=True)


def _players(hosts: list[Host]) -> tuple[str, ...]:
    """Who has to do with versions as they are published: whoever judges them reads checkpoints, and is never waited for."""
    return tuple(host.name for host in hosts if not host.has("evaluation"))


def past_slack(program: Program, past: PastConfig) -> int:
    """How many numbers a trainer may be ahead of an actor that looks for earlier versions."""
    return 1 + program.max_lag // past.every


def _inference_rings(program: Program, hosts: list[Host]) -> Iterator[tuple[str, RingPlan]]:
    if program.experiment.placement.inference != "worker":
        return
    for policy, plan in program.policies.items():
        lanes = plan.lanes // program.producers
        group = replace(plan.group, observation_space=plan.sight.asked)
        ask, answer = inference_rings.inference_layouts(group, plan.algorithm.policy, lanes, plan.mask_width)
        for index in range(program.experiment.placement.policy_workers):
            worker = host_of(hosts, Job("policy", index, policy)).name
            for producer in clients_of(program, index):
                actor = _actor_of(program, hosts, producer)
                yield f"ask/{producer}/{policy}", RingPlan(ask, inference_rings.SLOTS, actor, worker)
                yield f"answer/{producer}/{policy}", RingPlan(answer, inference_rings.SLOTS, worker, actor)


def _replay_rings(program: Program, hosts: list[Host]) -> Iterator[tuple[str, RingPlan]]:
    for policy, plan in program.policies.items():
        trainer = host_of(hosts, Job("trainer", 0, policy)).name
        for shard in range(program.shards(plan)):
            buffer = host_of(hosts, Job("buffer", shard, policy)).name
            parts, priorities = plan.rings_of_shard(program.buffers, shard)
            yield f"batch/{shard}/{policy}", RingPlan(parts, batch.AHEAD, buffer, trainer)
            yield f"priority/{shard}/{policy}", RingPlan(priorities, batch.RETURNS, trainer, buffer)


def _actor_of(program: Program, hosts: list[Host], producer: int) -> str:
    return host_of(hosts, Job("actor", producer // program.experiment.placement.ring)).name
