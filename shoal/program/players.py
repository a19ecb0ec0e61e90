"""Seats for those who play: their columns and deal, and the minds of those who do not learn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from shoal.api.env import Env
from shoal.api.experiment import PastConfig
from shoal.api.policy import Policy
from shoal.base.errors import InputError
from shoal.base.seeding import Noise
from shoal.base.table import import_target
from shoal.base.tree import tree_map
from shoal.checkpoints.checkpoint import Checkpoint, stage_of
from shoal.envs import make_env
from shoal.evaluation.episodes import copies_for
from shoal.evaluation.evaluator import Evaluator, Judge
from shoal.program.other_runs import load_from
from shoal.program.program import PlayerPlan, PolicyPlan, Program
from shoal.program.stages import StagedEnv, make_staged
from shoal.program.wiring import past_slack
from shoal.rollout.deal import Deal
from shoal.rollout.players import FixedInference, PastInference, RandomPolicy, ScriptedPolicy, WatchedInference
from shoal.rollout.seat import Seat
from shoal.rollout.team import TeamLanes
from shoal.rollout.trajectory import TrajectoryBuilder
from shoal.rollout.world import Notes
from shoal.streams.inference import InferenceClient, InlineInference
from shoal.streams.parameter import ParameterReader
from shoal.streams.past import Archive, Pool
from shoal.streams.primitives import Mailbox
from shoal.streams.stream_set import Streams
from shoal.streams.transports.memory import MemoryMailbox
from shoal.workers.trainer import load_policy


def make_seat(
    plan: PlayerPlan, client: InferenceClient, policy: Policy, noise: Noise, builder: TrajectoryBuilder | None = None,
    *, decisions: int = 0, watched: bool = False,
) -> Seat:  # fmt: skip
    """A player's seat, with the columns that its role names. `watched`: answers say what the policy thinks of them."""
    state = tree_map(lambda t: t.numpy(), policy.initial_state(len(noise.lanes)))
    columns = None if plan.whole_group else list(plan.role.columns)
    needs = plan.algorithm.needs if isinstance(plan, PolicyPlan) else None
    team = TeamLanes(needs.team_reward) if needs is not None and needs.lane == "env" else None
    world = (builder is not None or watched) and needs is not None and needs.world
    notes = Notes(len(noise.lanes), 0 if team else policy.agents, world=world, whole=watched)
    if watched:
        client = WatchedInference(client, policy, notes.to_decide)
    explores = plan.algorithm.explorer(noise.lanes) if builder is not None and isinstance(plan, PolicyPlan) else None
    return Seat(
        plan.name,
        plan.role.group,
        client,
        noise,
        state,
        builder,
        columns=columns,
        decisions=decisions,
        notes=notes,
        team=team,
        explorer=explores,
    )


def make_deal(program: Program, copies: int, *, seed: int, first_slot: int) -> Deal | None:
    """Where agents are dealt anew each episode."""
    if program.experiment.deal == "fixed":
        return None
    cast: dict[str, list[str]] = {}
    for plan in program.players.values():
        cast.setdefault(plan.role.group, []).extend([plan.name] * plan.role.count)
    return Deal(cast, copies, seed=seed, first_slot=first_slot)


def make_player(
    program: Program, plan: PlayerPlan, streams: Streams, start: int, lanes: int, *, explore: bool = True
) -> tuple[Policy, InferenceClient, int]:
    """Someone who does not learn: the policy, who asks it, and how much noise a decision uses."""
    past = plan.role.config.past
    if past is None:
        policy = make_mind(plan)
        return policy, FixedInference(policy, explore=explore), policy.noise_size
    policy = program.policies[past.of].copy_policy()[0]
    newest = partial(_newest_past, program, past.every, start)
    client = PastInference(
        policy,
        streams.mailbox(f"past/{plan.name}"),
        lanes,
        pool=make_pool(past, start),
        newest=newest,
        explore=explore,
        latest=past.latest,
    )
    return policy, client, policy.noise_size + 1


def make_archive(program: Program, past: PastConfig, mailbox: Mailbox, start: int) -> Archive:
    """Where a trainer leaves the versions that a player meets."""
    return Archive(mailbox, past.every, make_pool(past, start), past_slack(program, past))


def make_pool(past: PastConfig, start: int) -> Pool:
    """Which earlier versions are met in a launch that began with version `start`."""
    return Pool(start // past.every, past.keep, spread=past.spread)


def _newest_past(program: Program, every: int, start: int, round_: int) -> int:
    """The last kept version that round r may meet: that of the version which is due in it."""
    return max(start, round_ - program.max_lag) // every


def make_mind(plan: PlayerPlan) -> Policy:
    """Who plays at random, by a function, or as a run left it."""
    config = plan.role.config
    if config.play == "random":
        return RandomPolicy(plan.group)
    if config.play is not None:
        key = f"policies.{plan.name}.play"
        script = import_target(config.play, key=key)
        if not callable(script):
            raise InputError(f"{key} = '{config.play}' is no function")
        return ScriptedPolicy(script)
    assert config.from_ is not None, "checked by PolicyConfig"
    policy, group = load_from(config.from_, plan.name)
    if (group.observation_space, group.action_space) != (plan.group.observation_space, plan.group.action_space):
        raise InputError(f"policies.{plan.name}.from = '{config.from_}' was trained for other spaces")
    agents = len(plan.role.columns)
    if policy.agents not in (0, agents):
        raise InputError(
            f"policies.{plan.name}.from = '{config.from_}' tells {policy.agents} agents apart; here it would play {agents}"
        )
    return policy


@dataclass(frozen=True)
class Watch:
    """How an evaluation is played to be looked at."""

    seed: int
    """Of all that policies draw."""
    copies: int
    explore: bool
    """Everyone plays as in training."""
    render: bool
    """Worlds draw themselves."""


def make_evaluator(
    program: Program, mailboxes: dict[str, Mailbox], episodes: int, watch: Watch | None = None, *, stage: int = 0
) -> Evaluator:
    """Worlds for so many episodes, and everyone at the table: learners greedy, in the newest version; the others as they are."""
    copies, render = (copies_for(episodes), False) if watch is None else (watch.copies, watch.render)
    env = make_staged(program.experiment, stage, copies, render=render)
    return make_table(program, mailboxes, env, watch)


def make_judge(program: Program, env: Env) -> Judge:
    """The same for one saved version after the other: each has seats of its own, around the same worlds.

    Versions are loaded into the program's own algorithms, which nobody else may use.
    """

    def judge(found: Checkpoint) -> Evaluator:
        if isinstance(env, StagedEnv):
            env.enter(stage_of(found))
        return make_table(program, load_versions(program, found), env)

    return judge


def load_versions(program: Program, found: Checkpoint) -> dict[str, Mailbox]:
    """What every policy had learnt, by way of the program's own algorithms."""
    mailboxes: dict[str, Mailbox] = {}
    for name, plan in program.policies.items():
        load_policy(plan.algorithm, found.tensors, name)
        mailboxes[name] = MemoryMailbox(plan.algorithm.flat.nbytes, 1)
        mailboxes[name].publish(found.version, plan.algorithm.flat.block.numpy())
    return mailboxes


def make_table(program: Program, mailboxes: dict[str, Mailbox], env: Env, watch: Watch | None = None) -> Evaluator:
    """Everyone who plays, around `env`."""
    seed, explore = (program.experiment.seed, False) if watch is None else (watch.seed, watch.explore)
    seats, readers = [], []
    for plan in program.players.values():
        lanes = np.arange(env.num_envs * (plan.lanes // program.experiment.env.num_envs))
        of = plan.role.config.past.of if plan.role.config.past else plan.name
        client: InferenceClient
        if of in program.policies:  # earlier versions are stood in for by the present one
            policy, flat = program.policies[of].copy_policy()
            readers.append(ParameterReader(mailboxes[of], flat))
            client = InlineInference(policy.eval(), readers[-1], explore=explore)
        else:
            policy = make_mind(plan)
            client = FixedInference(policy, explore=explore or plan.role.config.play is not None)
        noise = Noise(seed, f"evaluation of {plan.name}", lanes, policy.noise_size)
        seats.append(make_seat(plan, client, policy, noise, watched=watch is not None))

    def deal(seed: int) -> Deal | None:
        return make_deal(program, env.num_envs, seed=seed, first_slot=0)

    return Evaluator(env, seats, readers, list(program.policies), deal)


def make_random_evaluator(program: Program, episodes: int) -> Evaluator:
    """The same worlds with everyone at random: what a return is worth is seen beside theirs."""
    env = make_env(program.experiment.env, copies_for(episodes))
    seats = []
    for name, group in env.groups.items():
        policy = RandomPolicy(group)
        lanes = np.arange(env.num_envs * len(group.agents))
        noise = Noise(program.experiment.seed, f"random play of {name}", lanes, policy.noise_size)
        seats.append(Seat(name, name, FixedInference(policy, explore=True), noise, None))
    return Evaluator(env, seats, judged=list(env.groups))
