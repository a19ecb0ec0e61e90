"""Seats for all that play in an Env: their columns, who decides for them, and who plays which agent in which episode."""

from __future__ import annotations

from functools import partial

from shoal.api.experiment import PastConfig
from shoal.api.policy import Policy
from shoal.api.policy_spec import PolicyPlan, PolicySpec
from shoal.api.program import Program
from shoal.base.seeding import Noise
from shoal.base.tree import tree_map
from shoal.rollout.deal import Deal, shuffled
from shoal.rollout.global_state import StoredObservations
from shoal.rollout.matchmaking import Cast, Matchmaker, Odds
from shoal.rollout.members import MemberInference, MemberPool
from shoal.rollout.players import PastInference, WatchedInference
from shoal.rollout.seat import Seat
from shoal.rollout.team import TeamLanes
from shoal.rollout.trajectory import TrajectoryBuilder
from shoal.streams.inference import InferenceClient
from shoal.streams.past import Archive, Pool
from shoal.streams.primitives import Mailbox


def make_seat(
    spec: PolicySpec, plan: PolicyPlan | None, client: InferenceClient, policy: Policy, noise: Noise,
    builder: TrajectoryBuilder | None = None, *, decisions: int = 0, watched: bool = False,
) -> Seat:  # fmt: skip
    """A policy's seat, with the columns that its spec names. `watched`: answers say what the policy thinks of them."""
    state = tree_map(lambda t: t.cpu().numpy(), policy.initial_state(len(noise.lanes)))
    columns = None if spec.whole_group else list(spec.columns)
    needs = plan.algorithm.needs if plan is not None else None
    team = TeamLanes(needs.team_reward) if needs is not None and needs.lane == "env" else None
    global_state = (builder is not None or watched) and needs is not None and needs.global_state
    notes = StoredObservations(len(noise.lanes), 0 if team else policy.agents, global_state=global_state, whole=watched)
    if watched:
        client = WatchedInference(client, policy, notes.to_decide)
    explorer = plan.algorithm.explorer(noise.lanes) if builder is not None and plan is not None else None
    return Seat(
        spec.name, spec.home, client, noise, state, builder,
        columns=columns, decisions=decisions, notes=notes, team=team, explorer=explorer,
    )  # fmt: skip


def make_deal(program: Program, copies: int, *, seed: int, first_slot: int) -> Deal | None:
    """Where agents are dealt anew each episode."""
    experiment = program.experiment
    if not experiment.shuffles and experiment.league is None:
        return None
    cast: dict[str, list[str]] = {}
    if not experiment.shuffles:  # the sides of a league, without its members
        playing = [
            (spec.home, column, spec.name)
            for spec in program.policies.values()
            for column in spec.columns
            if spec.count
        ]
        for home, _, name in sorted(playing):
            cast.setdefault(home, []).append(name)
        return Deal(lambda slot, episode: dict(cast), copies, first_slot=first_slot)
    for spec in program.policies.values():
        cast.setdefault(spec.home, []).extend([spec.name] * spec.count)
    return Deal(shuffled(cast, seed=seed), copies, first_slot=first_slot)


# ---------------------------------------------------------------- members of a league as opponents


def make_matchmaker(
    program: Program, odds: Odds, pool: MemberPool, copies: int, *, seed: int, first_slot: int
) -> Matchmaker:
    """Who meets whom in the env copies of one rollout."""
    return Matchmaker(Cast.of(program), odds, pool.has, copies, seed=seed, first_slot=first_slot)


def make_rival(spec: PolicySpec, pool: MemberPool, matches: Matchmaker, *, explore: bool) -> MemberInference:
    """Who decides in the seat of a rival."""
    columns = None if spec.whole_group else spec.columns
    return MemberInference(pool, partial(matches.codes, spec.home, columns), lambda: matches.in_use, explore=explore)


# ---------------------------------------------------------------- earlier versions as opponents


def make_past(
    program: Program, past: PastConfig, policy: Policy, mailbox: Mailbox, lanes: int, *, start: int, pool: list[int]
) -> PastInference:
    """Who plays as earlier versions of a policy that learns, in a launch that began with its version `start`."""
    newest = partial(_newest_past, program.max_lag, past.every, start)
    numbers = make_pool(past, start, pool)
    return PastInference(policy, mailbox, lanes, pool=numbers, newest=newest, explore=True, latest=past.latest)


def make_archive(program: Program, past: PastConfig, mailbox: Mailbox, *, start: int, pool: list[int]) -> Archive:
    """Where a trainer keeps the versions that an opponent plays as."""
    return Archive(mailbox, past.every, make_pool(past, start, pool), past_slack(program, past))


def make_pool(past: PastConfig, start: int, pool: list[int]) -> Pool:
    """Which earlier versions are met: those of `pool`, which a checkpoint held, or from the launch's first version on."""
    return Pool(pool or [start // past.every], past.keep, spread=past.spread)


def past_slack(program: Program, past: PastConfig) -> int:
    """How many numbers a trainer may be ahead of an actor that looks for earlier versions."""
    return 1 + program.max_lag // past.every


def _newest_past(max_lag: int, every: int, start: int, round_: int) -> int:
    """The last kept version that round r may meet: that of the version which is due in it."""
    return max(start, round_ - max_lag) // every
