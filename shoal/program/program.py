"""An experiment expanded: which policies there are, how they learn, how large everything is. Follows from the experiment alone."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from gymnasium import Space

from shoal.algorithms import ALGORITHMS
from shoal.api.algorithm import Algorithm, Needs, Task
from shoal.api.env import AgentGroup, Step
from shoal.api.experiment import ActorRange, Experiment, PlacementConfig
from shoal.api.fragment import Fragment
from shoal.api.policy import Policy
from shoal.api.sight import Sight
from shoal.base.arrays import Layout
from shoal.base.config import Config, Named
from shoal.base.errors import InputError
from shoal.base.flat import Flat
from shoal.base.seeding import derive_seed
from shoal.buffers.columns import replay_nbytes
from shoal.buffers.stacks import Stack
from shoal.buffers.sum_tree import tree_nbytes
from shoal.envs import make_env
from shoal.models import resolved_model
from shoal.program.other_runs import begin_from
from shoal.program.roles import Role, cast
from shoal.program.shards import check_buffers, part_of
from shoal.program.stages import env_at
from shoal.rollout.team import team_group
from shoal.rollout.world import world_space
from shoal.streams.batch import AHEAD, lanes_of, part_layout, priority_layout
from shoal.streams.sample import fragment_layout

T = TypeVar("T")


@dataclass
class PlayerPlan:
    """One policy: whom it plays."""

    role: Role
    group: AgentGroup
    """Its own agents."""
    lanes: int
    mask_width: int | None
    whole_group: bool
    """It has all places of its group."""

    @property
    def name(self) -> str:
        """Of the policy."""
        return self.role.policy


@dataclass
class PolicyPlan(PlayerPlan):
    """One policy that learns."""

    algorithm: Algorithm
    algorithm_section: Named
    """As resolved, like the next."""
    model_section: Named
    world: Space[Any]
    """What a central critic sees."""

    @property
    def sight(self) -> Sight:
        """How its observations are made up."""
        needs, policy = self.algorithm.needs, self.algorithm.policy
        agents = 0 if needs.lane == "env" else policy.agents  # a team knows its own
        return Sight(self.group.observation_space, agents, self.world if needs.world else None)

    def layout(self, producers: int) -> Layout:
        """What one slot of its sample stream holds: the lanes of one of `producers`."""
        lanes = self.lanes // producers
        group = replace(self.group, observation_space=self.sight.noted)
        return fragment_layout(group, self.algorithm.needs, self.algorithm.policy, lanes, self.mask_width)

    def example(self) -> Fragment:
        """A fragment of one lane, of zeros."""
        return Fragment(**self.layout(self.lanes).allocate()["fragment"])

    def rings_of_shard(self, shards: int, shard: int) -> tuple[Layout, Layout]:
        """What a slot holds on the way from one of so many buffer workers to the trainer, and on the way back."""
        replay = self.algorithm.needs.replay
        assert replay is not None, "it replays"
        lanes = part_of(replay, shards, shard)
        return part_layout(lanes_of(self.example(), lanes)), priority_layout(lanes)

    @property
    def sequences(self) -> int:
        """Kept for replay, over all replicas of the trainer; 0: none."""
        needs = self.algorithm.needs
        return 0 if needs.replay is None else max(1, needs.replay.capacity // needs.unroll)

    @property
    def stack(self) -> Stack | None:
        """What replay may know of observations that are stacks of pictures; None: they are none."""
        pictures = self.group.stacked
        return Stack(pictures, self.algorithm.needs.bootstrap) if pictures > 1 else None

    @property
    def replay_nbytes(self) -> int:
        """Bytes of all that is kept for replay, taken when the run starts."""
        replay = self.algorithm.needs.replay
        tree = 0 if replay is None or replay.priorities is None else tree_nbytes(self.sequences)
        return replay_nbytes(self.example(), self.sequences, self.stack) + tree

    def copy_policy(self) -> tuple[Policy, Flat]:
        """A policy to act with, and the block that its versions are loaded into."""
        policy = copy.deepcopy(self.algorithm.policy)
        return policy, Flat(policy, gradients=False)


@dataclass
class Program:
    """What a launcher runs."""

    experiment: Experiment
    """With every setting resolved."""
    policies: dict[str, PolicyPlan]
    """Those that learn."""
    players: dict[str, PlayerPlan]
    """All, in the order of the world's agents."""
    game_return: Literal["sum", "mean"]
    """How the game states a return."""

    @property
    def max_lag(self) -> int:
        """How many versions old experience may be."""
        return settled(self.experiment.placement.max_lag)

    @property
    def exact(self) -> bool:
        """Equal bits under every launcher."""
        return settled(self.experiment.placement.exact)

    @property
    def actors(self) -> int:
        """Actor workers, at most."""
        return self._range.max

    @property
    def fewest_actors(self) -> int:
        """Actor workers that must be there; those beyond come and go."""
        return self._range.min

    @property
    def _range(self) -> ActorRange:
        actors = self.experiment.placement.actors
        assert actors is not None, "resolved by expand"
        return actors if isinstance(actors, ActorRange) else ActorRange(min=actors, max=actors)

    @property
    def producers(self) -> int:
        """Envs in the rings of all actors: each has lanes and sample rings of its own."""
        return self.actors * self.experiment.placement.ring

    @property
    def envs_per_producer(self) -> int:
        """Env copies of each."""
        return self.experiment.env.num_envs // self.producers

    @property
    def trainers(self) -> int:
        """Replicas of each trainer."""
        return settled(self.experiment.placement.trainers)

    @property
    def hogwild(self) -> bool:
        """Replicas write into the same parameters, each at its own pace."""
        return self.trainers > 1 and self.experiment.placement.agree == "hogwild"

    @property
    def one_process(self) -> bool:
        """Everything fits into one process: one trainer, its actors beside it, policies in the actors, nobody who judges."""
        placement = self.experiment.placement
        alone = self.trainers == 1 and not self.buffers and self.experiment.evaluation is None
        return alone and settled(placement.together) and placement.inference == "inline"

    @property
    def buffers(self) -> int:
        """Buffer workers of each policy that replays; 0: trainers replay themselves."""
        return self.experiment.placement.buffers

    def shards(self, plan: PolicyPlan) -> int:
        """Buffer workers of one policy."""
        return self.buffers if plan.algorithm.needs.replay is not None else 0

    @property
    def slots(self) -> int:
        """Slots per ring: the credits that enforce `max_lag`."""
        return self.max_lag + 1

    def rank_of(self, producer: int) -> int:
        """Which replica learns from it."""
        return producer * self.trainers // self.producers

    def producers_of(self, rank: int) -> list[int]:
        """Whom a replica learns from, in their order."""
        return [producer for producer in range(self.producers) if self.rank_of(producer) == rank]


def settled(value: T | None) -> T:
    """A setting that `expand` has filled in."""
    assert value is not None, "resolved by expand"
    return value


def expand(experiment: Experiment, *, exact: bool = True) -> Program:
    """Build what the experiment names and fill in what it leaves open. `exact`: whether a run with lag is, if it does not say."""
    experiment = _with_all_copies(experiment)
    env = make_env(env_at(experiment, 0), 1)
    try:
        first = env.reset(0)
        groups, masks, game_return = env.groups, _mask_widths(first), env.game_return
        world = world_space(groups, first)
    finally:
        env.close()
    roles = cast(experiment, groups)
    alone = sum(role.config.learns for role in roles) == 1
    players = {
        role.policy: _plan(experiment, role, groups[role.group], masks[role.group], world, alone=alone)
        for role in roles
    }
    policies = {name: plan for name, plan in players.items() if isinstance(plan, PolicyPlan)}
    _check_pasts(players, policies)
    needs = min((plan.algorithm.needs for plan in policies.values()), key=lambda needs: needs.max_lag)
    placement = resolve_placement(experiment.placement, needs, experiment.env.num_envs, exact=exact)
    if (
        experiment.curriculum and experiment.placement.exact is None
    ):  # when a stage begins is a matter of time, but in one thread
        placement = placement.model_copy(update={"exact": exact})
    check_buffers(placement, experiment.placement, policies.values())
    if len(policies) > 1 and placement.trainers != 1 and placement.agree == "allreduce":
        raise InputError(
            f"placement.trainers = {placement.trainers}: replicas in step are for one policy; several may learn at "
            "different paces and would wait for each other for ever: use placement.actors"
        )
    resolved = experiment.model_copy(update={"placement": placement, **_sections_in_use(experiment, policies)})
    return Program(resolved, policies, players, game_return)


def _with_all_copies(experiment: Experiment) -> Experiment:
    """A range of actors: copies are counted for the most of them."""
    placement = experiment.placement
    actors = placement.actors
    if not isinstance(actors, ActorRange):
        if placement.envs_per_actor is not None:
            raise InputError(
                "placement.envs_per_actor is for a range of actors: leave it out, or give actors: {min, max}"
            )
        return experiment
    each = placement.envs_per_actor or max(1, experiment.env.num_envs // actors.min)
    env = experiment.env.model_copy(update={"num_envs": each * actors.max})
    placed = placement.model_copy(update={"envs_per_actor": each})
    return experiment.model_copy(update={"env": env, "placement": placed})


def _lanes_per_batch(experiment: Experiment, lanes: int) -> int:
    actors = experiment.placement.actors
    return lanes // actors.max * actors.min if isinstance(actors, ActorRange) else lanes


def _plan(
    experiment: Experiment, role: Role, group: AgentGroup, mask_width: int | None, world: Space[Any], *, alone: bool
) -> PlayerPlan:
    own = replace(group, agents=tuple(group.agents[column] for column in role.columns))
    lanes = experiment.env.num_envs * len(role.columns)
    whole = len(role.columns) == len(group.agents)
    if not role.config.learns:
        return PlayerPlan(role, own, lanes, mask_width, whole)
    algorithm, where = role.config.algorithm, f"policies.{role.policy}."
    section, at = (algorithm, f"{where}algorithm") if algorithm else (experiment.algorithm, "algorithm")
    cls = _algorithm_class(section, at)
    config: Config = cls.Config.parse(section.rest, at=at)
    body, at = (role.config.model, f"{where}model") if role.config.model else (experiment.model, "model")
    model = Named.parse(resolved_model(body, own.observation_space, at=at), at=at)
    seed = experiment.seed if alone else derive_seed(experiment.seed, f"policy {role.policy}")  # they begin apart
    batch, replicas = _lanes_per_batch(experiment, lanes), experiment.placement.trainers or 1
    task = Task(own, batch, seed, experiment.stop.steps, replicas, world, all_lanes=lanes)
    section = Named(**{**config.model_dump(), "name": section.name})
    built = cls(config, model, task)
    if role.config.from_ is not None:
        begin_from(built.policy, role.config.from_, role.policy)
    if built.needs.lane == "env":
        if experiment.deal == "shuffled":
            raise InputError(f"deal = 'shuffled': '{section.name}' learns as a team, whose agents stay; leave it out")
        own, lanes = team_group(own, world), experiment.env.num_envs
        mask_width = mask_width and mask_width * len(own.agents)
    return PolicyPlan(role, own, lanes, mask_width, whole, built, section, model, world)


def _check_pasts(players: dict[str, PlayerPlan], policies: dict[str, PolicyPlan]) -> None:
    for name, plan in players.items():
        past = plan.role.config.past
        if past is not None and past.of in policies and policies[past.of].algorithm.needs.lane == "env":
            raise InputError(f"policies.{name}.past.of = '{past.of}' learns as a team: it cannot be met as a past one")


def _algorithm_class(section: Named, at: str) -> type[Algorithm]:
    cls = ALGORITHMS.load(section.name)
    if not (isinstance(cls, type) and issubclass(cls, Algorithm)):
        raise InputError(
            f"{at}.name = '{section.name}' is no Algorithm: let the class inherit from shoal.api.algorithm.Algorithm"
        )
    return cls


def _sections_in_use(experiment: Experiment, policies: dict[str, PolicyPlan]) -> dict[str, Any]:
    """For `config.yaml`: a single policy's settings are the experiment's, several have their own."""
    if len(policies) == 1 and not experiment.policies:
        (plan,) = policies.values()
        return {"algorithm": plan.algorithm_section, "model": plan.model_section}
    own = {
        name: plan.role.config.model_copy(update={"algorithm": plan.algorithm_section, "model": plan.model_section})
        for name, plan in policies.items()
    }
    return {"policies": {**experiment.policies, **own}}


def resolve_placement(asked: PlacementConfig, needs: Needs, copies: int, *, exact: bool) -> PlacementConfig:
    """Fill in what was left out. Who names no actors means one process; what cannot be shared out is an error."""
    trainers = asked.trainers or 1
    elastic = isinstance(asked.actors, ActorRange)
    actors = asked.actors.max if isinstance(asked.actors, ActorRange) else asked.actors or max(trainers, asked.buffers)
    lag = asked.max_lag if asked.max_lag is not None else max(needs.max_lag, asked.buffers and 1)
    agree = asked.agree or needs.agree
    alone = trainers > 1 and agree == "hogwild"
    if copies % (actors * asked.ring):
        ring = f" x placement.ring = {asked.ring}" if asked.ring > 1 else ""
        nearest = _nearest(copies // asked.ring, actors) if copies % asked.ring == 0 else 1
        raise InputError(f"placement.actors = {actors}{ring} cannot share env.num_envs = {copies}: try {nearest}")
    if actors % trainers:
        raise InputError(f"placement.trainers = {trainers} cannot share placement.actors = {actors}: try {trainers}")
    if elastic and (trainers > 1 or not lag or asked.exact or asked.inference == "worker"):
        raise InputError(
            "placement.actors = {min, max}: actors that come and go need placement.max_lag of 1 or more, one trainer, "
            "inference: inline, and cannot be exact"
        )
    if asked.exact and alone:
        raise InputError("placement.exact = true: hogwild replicas never agree to the bit; choose agree: allreduce")
    changes = {
        "trainers": trainers, "actors": asked.actors if elastic else actors, "max_lag": lag, "agree": agree,
        "together": asked.together if asked.together is not None else asked.actors is None and not asked.buffers,
        "exact": asked.exact if asked.exact is not None else (exact or lag == 0) and not (alone or elastic or asked.buffers),
    }  # fmt: skip
    return asked.model_copy(update=changes)


def _nearest(copies: int, actors: int) -> int:
    return min((n for n in range(1, copies + 1) if copies % n == 0), key=lambda n: abs(n - actors))


def _mask_widths(step: Step) -> dict[str, int | None]:
    return {name: None if turn.action_mask is None else turn.action_mask.shape[-1] for name, turn in step.turns.items()}


def plan_of(program: Program) -> dict[str, Any]:
    """What would run, for people and scripts: workers, batch sizes, memory, every resolved setting."""
    policies: dict[str, dict[str, Any]] = {}
    for name, plan in program.policies.items():
        needs = plan.algorithm.needs
        shards = program.shards(plan)
        rings = [plan.rings_of_shard(shards, shard)[0].nbytes * AHEAD for shard in range(shards)]
        policies[name] = {
            "agents": list(plan.group.agents),
            "observation_space": str(plan.group.observation_space),
            "action_space": str(plan.group.action_space),
            "parameters": plan.algorithm.flat.parameters.numel(),
            "lanes": plan.lanes,
            "rows_per_fragment": needs.burn_in + needs.unroll + needs.bootstrap,
            "batch": _lanes_per_batch(program.experiment, plan.lanes) * needs.unroll,
            "bytes_per_version": plan.algorithm.flat.nbytes,
            "bytes_of_sample_ring": plan.layout(program.producers).nbytes * program.slots * program.producers,
            "sequences_of_replay": plan.sequences,
            "bytes_of_replay": plan.replay_nbytes + sum(rings),
        }
    workers = {"controller": 1, "actor": program.actors, "trainer": len(policies) * program.trainers}
    if program.experiment.placement.inference == "worker":
        workers["policy worker"] = len(policies) * program.experiment.placement.policy_workers
    if program.buffers:
        workers["buffer worker"] = sum(program.shards(plan) for plan in program.policies.values())
    if program.experiment.evaluation is not None:
        workers["evaluation worker"] = 1
    held = ("bytes_of_sample_ring", "bytes_of_replay")
    memory = sum(sum(p[key] for key in held) + p["bytes_per_version"] * program.slots for p in policies.values())
    return {
        "workers": workers,
        "policies": policies,
        "memory_bytes": memory,
        "settings": program.experiment.model_dump(),
    }
