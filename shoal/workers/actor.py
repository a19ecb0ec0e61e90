"""The actor worker.

Consumes decisions (of its inference clients) and parameter versions; produces fragments and episode records; waits for a free
slot, for the version of its round, or for an answer. Takes the orders SetStage, SetOdds, Reconfigure and Flush.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, Self

import numpy as np

from shoal.api.algorithm import Algorithm
from shoal.api.env import Env, Episode
from shoal.api.experiment import Experiment
from shoal.api.messages import Episodes, Matches, Message
from shoal.api.orders import Flush, Order, Reconfigure, SetOdds, SetStage
from shoal.api.policy_spec import PolicyPlan, PolicySpec
from shoal.api.program import Port, Program, RingShape, WorkerSpec, resolved
from shoal.api.worker import Heartbeat, Worker
from shoal.base.closing import close_all
from shoal.base.errors import InputError
from shoal.base.faults import NO_FAULTS, Faults
from shoal.base.seeding import Noise, derive_seed
from shoal.base.tree import Tree
from shoal.envs.background import BackgroundEnv
from shoal.envs.curriculum import env_at, make_staged
from shoal.envs.wrappers import learnt_scale
from shoal.monitoring.shares import Shares
from shoal.rollout.deal import Deal
from shoal.rollout.matchmaking import Cast, Matchmaker, Odds, records_of
from shoal.rollout.members import MemberPool, PlayerVersions
from shoal.rollout.plans import fixed_policy
from shoal.rollout.players import FixedInference
from shoal.rollout.rollout import Progress, Rollout, Stages
from shoal.rollout.seat import Seat
from shoal.rollout.seats import make_deal, make_matchmaker, make_past, make_rival, make_seat
from shoal.rollout.trajectory import TrajectoryBuilder
from shoal.streams import names
from shoal.streams.inference import InferenceClient, InlineInference
from shoal.streams.inference_rings import RingInference, inference_shapes
from shoal.streams.parameter import ParameterReader
from shoal.streams.primitives import Waiter
from shoal.streams.sample import SampleWriter, sample_layout
from shoal.workers.context import Context
from shoal.workers.replica_sync import sync_class

STEPS_PER_POLL = 64
"""Steps of the environments between two looks at the rest of the process."""
MATCHES_PER_MESSAGE = 256
"""So that whoever listens can be told in one piece."""
_STATES = {"slot": "waited_slot", "answer": "waited_input", "env": "worked"}


class ActorSpec(WorkerSpec):
    """One actor: a ring of Envs, with its share of the env copies."""

    kind: ClassVar[str] = "actor"
    events: ClassVar[tuple[str, ...]] = ("step",)
    rank_in_process: ClassVar[int] = 10
    steps_env: ClassVar[bool] = True
    keeps: ClassVar[str] = "rollouts"

    number: int
    """Which of the actors."""

    @classmethod
    def place(cls, program: Program) -> list[Self]:
        return [cls(name=f"actor-{number}", number=number) for number in range(program.actors)]

    def producers(self, program: Program) -> range:
        """Its Envs, by their numbers in the run."""
        ring = program.experiment.placement.ring
        return range(self.number * ring, (self.number + 1) * ring)

    def process(self, program: Program) -> str:
        if not resolved(program.experiment.placement.together):
            return self.name
        return names.trainer_process(program.rank_of(self.producers(program)[0]), program.trainers)

    def needed(self, program: Program) -> bool:
        return self.number < program.fewest_actors

    def ports(self, program: Program, plans: Mapping[str, PolicyPlan]) -> list[Port]:
        ports = []
        for producer in self.producers(program):
            for policy, plan in plans.items():
                shape = RingShape(sample_layout(plan, program.producers), program.slots, counted=True)
                ports.append(Port(names.sample(producer, policy), "write", shape))
                if program.experiment.placement.inference == "worker":
                    ask, _ = inference_shapes(plan, plan.spec.lanes // program.producers)
                    ports.append(Port(names.ask(producer, policy), "write", ask))
                    ports.append(Port(names.answer(producer, policy), "read"))
                else:
                    ports.append(Port(sync_class(program).version(policy, program.rank_of(producer)), "read"))
            ports += [
                Port(names.past(spec.name), "read")
                for spec in program.policies.values()
                if spec.config.past is not None
            ]
            for player in () if program.experiment.league is None else program.experiment.league.players:
                ports.append(Port(names.members(player), "read"))
                ports.append(Port(sync_class(program).version(player, program.rank_of(producer)), "read"))
        return ports

    def build(self, context: Context) -> ActorWorker:
        return _Building(self, context).actor()


class ActorWorker(Worker):
    """A ring of rollouts that take turns: while one waits for its decision or its environments, the others go on."""

    def __init__(
        self, name: str, rollouts: list[Rollout], shares: Shares, waiter: Waiter, *,
        heartbeat: Heartbeat | None = None, faults: Faults = NO_FAULTS, stages: OrderedStages | None = None,
        algorithms: Mapping[str, Algorithm] | None = None, league: LeagueSeats | None = None,
    ) -> None:  # fmt: skip
        self.name, self._league = name, league
        self._rollouts, self._shares, self._waiter, self._faults = rollouts, shares, waiter, faults
        self._heartbeat, self._stages = heartbeat or Heartbeat(), stages
        self._algorithms = algorithms or {}
        self._waits = "waited_slot"
        self._steps = 0

    def poll(self, timeout: float) -> list[Message]:
        progress = Progress()
        for _ in range(STEPS_PER_POLL):
            if not self._sweep(progress) and not self._wait(progress, timeout):
                break
            if progress.posted:
                break
        self._steps += progress.steps
        self._faults.at("step", self._steps)
        self._heartbeat.rest()
        self._shares.switch(self._waits)  # what passes until the next poll is no work of this worker's
        if not (progress.steps or progress.posted):  # a call in which all copies idle may end a round
            return []
        rounds = {rollout.producer: rollout.rounds for rollout in self._rollouts} if progress.posted else {}
        said = Episodes(progress.steps, rounds, progress.episodes, self._shares.take())
        return [said] if self._league is None else [*self._league.told(progress.episodes), said]

    def _wait(self, progress: Progress, timeout: float) -> bool:
        return timeout > 0 and self._waiter.wait_until(lambda: self._sweep(progress), timeout)

    def _sweep(self, progress: Progress) -> bool:
        """Advance every rollout; False: all of them wait."""
        self._heartbeat.beat()
        self._shares.switch("worked")
        waits = [rollout.advance(progress) for rollout in self._rollouts]
        if None in waits:
            self._waits = "waited_slot"
            return True
        # an environment that steps in the background is work; else an answer is nearer than a slot
        nearest = next(wait for wait in ("env", "answer", "slot") if wait in waits)
        self._waits = _STATES[nearest]
        self._shares.switch(self._waits)
        return False

    def handle(self, order: Order) -> list[Message]:
        match order:
            case SetStage(stage) if self._stages is not None:
                self._stages.due = stage
            case SetOdds(odds) if self._league is not None:
                self._league.odds.give(odds)
            case Reconfigure(policy, changes) if (
                policy in self._algorithms
            ):  # what it prepares follows; the trainer answers
                with contextlib.suppress(InputError):
                    self._algorithms[policy].reconfigure(changes)
            case Flush(producer, policy, round_):
                for rollout in self._rollouts:
                    if rollout.producer == producer and rollout.flush(policy, round_):
                        return [Episodes(0, {producer: rollout.rounds})]
        return []

    def state(self, round_: int) -> Tree | None:
        """Its rollouts, as they began that round."""
        begun = tuple(rollout.beginning(round_) for rollout in self._rollouts)
        return None if None in begun else begun

    def restore(self, state: Tree) -> None:
        for rollout, begun in zip(self._rollouts, state, strict=True):
            rollout.restore(begun)

    def close(self) -> None:
        close_all(self._rollouts)


class OrderedStages:
    """The stage that the run is in, as the last order said; the rollouts of an actor share it."""

    def __init__(self, stage: int) -> None:
        self.due = stage


class EnvStages(Stages):
    """The stage that the environments of one rollout are in."""

    def __init__(self, experiment: Experiment, ordered: OrderedStages, build: Callable[[int], Env]) -> None:
        self._experiment, self._ordered, self._build = experiment, ordered, build
        self.stage = ordered.due

    @property
    def due(self) -> int:
        return self._ordered.due

    def enter(self, stage: int, env: Env) -> Env:
        """Built anew, unless the settings are the same and the environment only has to be told."""
        same = env_at(self._experiment, stage) == env_at(self._experiment, self.stage)
        self.stage = stage
        if same:
            env.set_stage(stage)
            return env
        env.close()
        return self._build(stage)


class LeagueSeats:
    """What an actor knows of its league: the odds by which players meet, which its rollouts share, and how to tell of matches."""

    def __init__(self, cast: Cast, copies: int) -> None:
        self.odds, self._cast, self._copies = Odds(), cast, copies
        others = max(1, cast.parties - 1)
        self._most = MATCHES_PER_MESSAGE // others * others

    def told(self, episodes: list[Episode]) -> list[Message]:
        """The matches among them, for the league manager."""
        records, most = records_of(episodes, self._cast, self._copies), self._most
        return [Matches(records[at : at + most].tobytes()) for at in range(0, len(records), most)]


# ---------------------------------------------------------------- building


class _Building:
    """From a spec to its rollouts and their seats."""

    def __init__(self, spec: ActorSpec, context: Context) -> None:
        self._spec, self._context, self._program = spec, context, context.program
        self._experiment, self._life = context.program.experiment, context.life
        self._stages = OrderedStages(self._life.stage) if self._experiment.curriculum else None
        league, copies = self._experiment.league, self._program.envs_per_producer
        self._league = None if league is None else LeagueSeats(Cast.of(self._program), copies)
        self._begun = context.state_of(spec) if self._life.whole else None

    def actor(self) -> ActorWorker:
        spec, context = self._spec, self._context
        shares = Shares("actor")
        mark = shares.switch if self._experiment.placement.inference == "inline" else None
        with contextlib.ExitStack() as opened:
            rollouts = [self._rollout(producer, mark, opened) for producer in spec.producers(self._program)]
            actor = ActorWorker(
                spec.name, rollouts, shares, context.streams.waiter,
                heartbeat=context.heartbeat, faults=context.faults_of(spec), stages=self._stages,
                algorithms={name: plan.algorithm for name, plan in context.plans.items()}, league=self._league,
            )  # fmt: skip
            if self._begun is not None:
                actor.restore(self._begun)
            opened.pop_all()  # the actor closes them
            return actor

    def _rollout(self, producer: int, mark: Callable[[str], object] | None, opened: contextlib.ExitStack) -> Rollout:
        """Env copies and their seats."""
        experiment, program, copies = self._experiment, self._program, self._program.envs_per_producer
        stages = None
        if self._stages is not None:
            stages = EnvStages(experiment, self._stages, lambda stage: self._envs(producer, stage))
        env = opened.enter_context(contextlib.closing(self._envs(producer, 0 if stages is None else stages.stage)))
        seed = derive_seed(experiment.seed, "env", self._life.incarnation, self._life.version)
        if self._league is None:
            seats = [self._seat(spec, producer) for spec in program.policies.values()]
            deal = make_deal(program, copies, seed=seed, first_slot=producer * copies)
        else:
            seats, deal = self._matched(self._league.odds, producer, seed)
        # Where others learn meanwhile, rounds up to the lag and one more may be posted when a checkpoint is due.
        ahead = self._context.supervised or program.max_lag
        keep = program.max_lag + 2 if program.exact and ahead else 0
        return Rollout(
            env, seats, seed=seed, timeout=experiment.env.timeout, mark=mark, deal=deal, keep=keep, stages=stages,
            producer=producer,
        )  # fmt: skip

    def _envs(self, producer: int, stage: int) -> Env:
        experiment, copies, wake = self._experiment, self._program.envs_per_producer, self._context.streams.wake
        make = partial(make_staged, experiment, stage, copies, first_slot=producer * copies)
        shelf = None if experiment.curriculum else self._context.shelf
        env = make() if shelf is None else shelf.open(producer, make, goes_on=self._begun is not None)
        if experiment.env.background and wake is not None:
            env = BackgroundEnv(env, done=wake)
        env.between, env.waits_for_all = self._context.heartbeat.between, self._program.exact
        return env

    def _seat(self, spec: PolicySpec, producer: int) -> Seat:
        """A later life goes on at the round that its predecessor left open, with randomness that was not used yet."""
        if not spec.learns:
            return self._opponent(spec, producer)
        context, life = self._context, self._life
        plan, lanes = context.plans[spec.name], self._lanes(spec, producer)
        needs, policy = plan.algorithm.needs, plan.algorithm.policy
        ring = context.streams.ring(names.sample(producer, spec.name))
        round_ = life.starts[spec.name] + ring.posted
        writer = SampleWriter(ring, producer, incarnation=life.incarnation, posted=round_)
        env, prepare = self._experiment.env, plan.algorithm.prepare
        builder = TrajectoryBuilder(
            needs, lanes, writer, reward_scale=learnt_scale(env), clip_reward=env.clip_reward, prepare=prepare
        )
        noise = self._noise(spec, lanes, policy.noise_size, policy.noise_hold)
        return make_seat(
            spec, plan, self._client(plan, producer), policy, noise, builder,
            decisions=(round_ + life.incarnation) * needs.unroll,
        )  # fmt: skip

    def _opponent(self, spec: PolicySpec, producer: int) -> Seat:
        """A policy that does not learn."""
        lanes, past, life = self._lanes(spec, producer), spec.config.past, self._life
        if past is None:
            policy = fixed_policy(spec)
            client: InferenceClient = FixedInference(policy, explore=True)
            noise = policy.noise_size
        else:
            policy = self._context.plans[past.of].copy_policy()[0]
            mailbox = self._context.streams.mailbox(names.past(spec.name))
            pool, start = life.pools.get(spec.name, []), life.starts[past.of]
            client = make_past(self._program, past, policy, mailbox, len(lanes), start=start, pool=pool)
            noise = policy.noise_size + 1
        return make_seat(
            spec, None, client, policy, self._noise(spec, lanes, noise), decisions=life.incarnation << 32
        )  # fmt: skip

    def _matched(self, odds: Odds, producer: int, seed: int) -> tuple[list[Seat], Deal]:
        """In a league: players and the seats of their rivals, and who meets whom in each episode."""
        program, copies = self._program, self._program.envs_per_producer
        pool = self._pool(producer)
        matches = make_matchmaker(program, odds, pool, copies, seed=seed, first_slot=producer * copies)
        seats = [
            self._rival(spec, producer, pool, matches) if spec.members else self._seat(spec, producer)
            for spec in program.policies.values()
        ]
        return seats, Deal(matches, copies, first_slot=producer * copies, matches=matches.match)

    def _rival(self, spec: PolicySpec, producer: int, pool: MemberPool, matches: Matchmaker) -> Seat:
        lanes, policy = self._lanes(spec, producer), self._context.plans[spec.members[0]].algorithm.policy
        noise = self._noise(spec, lanes, policy.noise_size, policy.noise_hold)
        client = make_rival(spec, pool, matches, explore=True)
        return make_seat(spec, None, client, policy, noise, decisions=self._life.incarnation << 32)

    def _pool(self, producer: int) -> MemberPool:
        """Where the members that rivals play as come from, and the players as they learn."""
        league, mailbox, found = self._experiment.league, self._context.streams.mailbox, []
        assert league is not None
        for name in league.players:
            policy, flat = self._context.plans[name].copy_policy()
            stream = sync_class(self._program).version(name, self._program.rank_of(producer))
            live = ParameterReader(mailbox(stream), flat, exact=False)
            found.append(PlayerVersions(copy.deepcopy(policy), mailbox(names.members(name)), live, policy.eval()))
        return MemberPool(found)

    def _lanes(self, spec: PolicySpec, producer: int) -> np.ndarray:
        count = spec.lanes // self._program.producers
        return np.arange(producer * count, (producer + 1) * count)

    def _noise(self, spec: PolicySpec, lanes: np.ndarray, size: int, hold: int = 1) -> Noise:
        return Noise(self._experiment.seed, f"actions of {spec.name}", lanes, size, hold)

    def _client(self, plan: PolicyPlan, producer: int) -> InferenceClient:
        streams = self._context.streams
        if self._experiment.placement.inference == "worker":
            ask, answer = names.ask(producer, plan.name), names.answer(producer, plan.name)
            return RingInference(streams.ring(ask), streams.ring(answer))
        policy, flat = plan.copy_policy()
        stream = sync_class(self._program).version(plan.name, self._program.rank_of(producer))
        return InlineInference(policy, self._context.reader(plan.name, stream, flat))
