"""Everyone who plays in an evaluation, around environments of its own: learners in the newest version, the others as they are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from shoal.api.env import Env
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import Program
from shoal.base.seeding import Noise
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.envs import make_env
from shoal.envs.curriculum import make_staged
from shoal.evaluation.episodes import copies_for
from shoal.evaluation.evaluator import Evaluator, Watch
from shoal.evaluation.matches import Matches
from shoal.evaluation.opponents import Opponents, Past
from shoal.rollout.deal import Deal
from shoal.rollout.openings import Openings
from shoal.rollout.plans import fixed_policy, load_policy
from shoal.rollout.players import FixedInference, RandomPolicy
from shoal.rollout.seat import Seat
from shoal.rollout.seats import make_deal, make_seat
from shoal.streams.inference import InferenceClient, InlineInference
from shoal.streams.parameter import ParameterReader
from shoal.streams.primitives import Mailbox
from shoal.streams.transports.memory import MemoryMailbox

Plans = Mapping[str, PolicyPlan]


def make_evaluator(
    program: Program, plans: Plans, mailboxes: dict[str, Mailbox], episodes: int, watch: Watch | None = None, *,
    stage: int = 0, plies: int = 0,
) -> Evaluator:  # fmt: skip
    """Environments for so many episodes, and everyone who plays in them, as in training. `plies`: steps of an opening."""
    return seat_everyone(program, plans, mailboxes, _envs(program, episodes, watch, stage), watch, plies)


def make_matches(
    program: Program, plans: Plans, mailboxes: dict[str, Mailbox], episodes: int, watch: Watch | None = None, *,
    stage: int = 0, plies: int = 0, past: Past,
) -> Matches:  # fmt: skip
    """The same, against the opponents of the Program; `past`: the earlier versions, where they are among them."""
    env = _envs(program, episodes, watch, stage)
    return Opponents(program, plans).seat(mailboxes, past, env, watch, plies)


def _envs(program: Program, episodes: int, watch: Watch | None, stage: int) -> Env:
    copies, render = (
        (copies_for(episodes, program.experiment.env), False) if watch is None else (watch.copies, watch.render)
    )
    return make_staged(program.experiment, stage, copies, render=render)


def load_versions(plans: Plans, found: Checkpoint) -> dict[str, Mailbox]:
    """What every policy had learnt, by way of the algorithms of `plans`, which nobody else may use."""
    mailboxes: dict[str, Mailbox] = {}
    for name, plan in plans.items():
        load_policy(plan.algorithm, found.tensors, name)
        mailboxes[name] = MemoryMailbox(plan.algorithm.flat.nbytes, 1)
        mailboxes[name].publish(found.version, plan.algorithm.flat.block.numpy())
    return mailboxes


def seat_everyone(
    program: Program, plans: Plans, mailboxes: dict[str, Mailbox], env: Env, watch: Watch | None = None, plies: int = 0
) -> Evaluator:
    """Everyone who plays, around `env`, as in training. Earlier versions are stood in for by the present one."""
    seed, explore = (program.experiment.seed, False) if watch is None else (watch.seed, watch.explore)
    seats, readers, selves = [], [], []
    for spec in program.policies.values():
        lanes = np.arange(env.num_envs * (spec.lanes // program.experiment.env.num_envs))
        of = spec.plays_as
        client: InferenceClient
        if of in plans:
            selves.append(spec.name)
            policy, flat = plans[of].copy_policy()
            readers.append(ParameterReader(mailboxes[of], flat))
            client = InlineInference(policy.eval(), readers[-1], explore=explore)
        else:
            policy = fixed_policy(spec)
            client = FixedInference(policy, explore=explore or spec.config.play is not None)
        noise = Noise(seed, f"evaluation of {spec.name}", lanes, policy.noise_size, policy.noise_hold)
        plan = plans[spec.name] if spec.learns else None
        seats.append(make_seat(spec, plan, client, policy, noise, watched=watch is not None and watch.thoughts))

    def deal(seed: int) -> Deal | None:
        return make_deal(program, env.num_envs, seed=seed, first_slot=0)

    def openings(seed: int) -> Openings | None:
        number = lambda row, episode: episode * env.num_envs + row  # noqa: E731
        return Openings(env, plies, number, seed=seed) if plies else None

    return Evaluator(env, seats, readers, list(plans), deal, openings, selves)


def make_random_evaluator(program: Program, episodes: int) -> Evaluator:
    """The same environments with everyone at random: what a return is worth is seen beside theirs."""
    env = make_env(program.experiment.env, copies_for(episodes, program.experiment.env))
    seats = []
    for spec in program.policies.values():
        policy = RandomPolicy(env.groups[spec.home])
        lanes = np.arange(env.num_envs * len(spec.columns))
        noise = Noise(program.experiment.seed, f"random play of {spec.name}", lanes, policy.noise_size)
        columns = None if spec.whole_group else list(spec.columns)
        client = FixedInference(policy, explore=True)
        seats.append(Seat(spec.name, spec.home, client, noise, None, columns=columns))

    def deal(seed: int) -> Deal | None:
        return make_deal(program, env.num_envs, seed=seed, first_slot=0)

    return Evaluator(env, seats, scored=list(program.policies), deal=deal)
