"""Where a trainer keeps earlier versions of its policy, for those who play as them."""

from __future__ import annotations

from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import MailboxShape, Port, Program
from shoal.rollout.seats import make_archive, past_slack
from shoal.streams import names
from shoal.streams.past import Archive
from shoal.workers.context import Context


def archive_ports(program: Program, plan: PolicyPlan, rank: int) -> list[Port]:
    """Of one replica. A version that somebody may meet stays until nobody can: some more are kept than are met."""
    ports = []
    for spec in program.policies.values():
        past = spec.config.past
        if past is not None and past.of == plan.name and rank == 0:
            versions = past.keep + past_slack(program, past) + 1
            shape = MailboxShape(plan.algorithm.flat.nbytes, versions, every=True)
            ports.append(Port(names.past(spec.name), "write", shape))
    return ports


def make_archives(context: Context, policy: str, rank: int) -> dict[str, Archive]:
    """At the other end of those ports: by the name of who plays as the past."""
    program, life = context.program, context.life
    pasts = {name: spec.config.past for name, spec in program.policies.items()}
    return {
        name: make_archive(
            program, past, context.streams.mailbox(names.past(name)),
            start=life.starts[policy], pool=life.pools.get(name, []),
        )
        for name, past in pasts.items()
        if past is not None and past.of == policy and rank == 0
    }  # fmt: skip
