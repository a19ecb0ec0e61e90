"""From a Program to its workers. Every launcher builds them here; they differ in who polls them and over which streams."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from shoal.algorithms.agreement import AllreduceLearner, settle_in
from shoal.algorithms.learner import SoloLearner
from shoal.api.algorithm import Learner
from shoal.api.env import Env
from shoal.api.worker import Pulse, Worker
from shoal.base.faults import Fault, Faults
from shoal.base.flat import Flat
from shoal.base.seeding import Noise, derive_seed
from shoal.base.tree import Tree
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from shoal.envs.background import BackgroundEnv
from shoal.evaluation.clips import Clips, check_drawn
from shoal.evaluation.episodes import copies_for
from shoal.monitoring.shares import Shares
from shoal.program.contents import contents_of, fits, is_whole, saves_replay, versions_before
from shoal.program.hosts import Job, clients_of
from shoal.program.players import make_archive, make_deal, make_judge, make_player, make_seat
from shoal.program.program import PlayerPlan, PolicyPlan, Program, expand
from shoal.program.shards import make_rate, make_replay, shard_of
from shoal.program.stages import STAGE, MailboxStages, StagedEnv, make_staged
from shoal.rollout.rollout import Rollout
from shoal.rollout.seat import Seat
from shoal.rollout.trajectory import TrajectoryBuilder
from shoal.streams.batch import PATIENCE, BatchReader, PartWriter
from shoal.streams.inference import InferenceClient, InlineInference
from shoal.streams.inference_rings import AskLine, RingInference
from shoal.streams.leave import Leave
from shoal.streams.parameter import ParameterReader
from shoal.streams.past import Archive
from shoal.streams.sample import SampleReader, SampleWriter
from shoal.streams.stream_set import Streams
from shoal.workers.actor import ActorWorker
from shoal.workers.buffer import BufferWorker
from shoal.workers.evaluation import EvaluationWorker, Rules
from shoal.workers.policy import PolicyWorker
from shoal.workers.prefetched import PrefetchedFeed
from shoal.workers.replay import ReplayFeed
from shoal.workers.trainer import Replica, TrainerWorker

FOREVER = 1e6
"""Seconds that a replica waits for the others: a pause may be long, and a dead one is seen to by the supervisor."""


@dataclass
class Life:
    """Which life of a host this is, and where it goes on."""

    version: int = 0
    """Where the run started."""
    incarnation: int = 0
    """How often the host died since."""
    start: Checkpoint | None = None
    """What its trainers go on from."""
    versions: dict[str, int] = field(default_factory=dict)
    """Policy -> the version that its trainer goes on at, where it is not that of the checkpoint."""
    rounds: dict[str, int] = field(default_factory=dict)
    """Policy -> rounds of this launch that are over, or were lost with the trainer's last life."""
    steps: int = 0
    """Environment steps behind that: of all replicas in step, otherwise of the one that lives here."""
    whole: bool = False
    """Rollouts go on where they were when the checkpoint was written."""
    judged: int = -1
    """The newest version that was judged: an evaluation worker goes on with a newer one."""


def first_life(program: Program, start: Checkpoint | None) -> Life:
    """Where a launch begins. Replicas that go their own way share out the steps that are behind them."""
    if start is None:
        return Life()
    steps = start.meta["steps"] // (program.trainers if program.hogwild else 1)
    return Life(start.version, start=start, steps=steps, whole=is_whole(program, start))


@dataclass
class Builder:
    """Builds the workers of one process."""

    program: Program
    streams: Streams
    life: Life
    pulse: Pulse = field(default_factory=Pulse)
    faults: list[Fault] = field(default_factory=list)
    supervised: bool = False
    """Trainers wait for the controller's leave after each update; otherwise whoever polls them sees to it."""
    checkpoints: Path | None = None
    """Where they lie, for those who judge them."""

    def build(self, job: Job) -> Worker:
        """The worker that a job names."""
        if job.kind == "actor":
            return self.actor(job.number)
        if job.kind == "policy":
            return self.policy_worker(job.policy, job.number)
        if job.kind == "buffer":
            return self.buffer(job.policy, job.number)
        if job.kind == "evaluation":
            return self.evaluation(job.name)
        return self.trainer(job.policy, job.number)

    # ------------------------------------------------------------ trainer

    def trainer(self, policy: str, rank: int = 0) -> TrainerWorker:
        """A trainer, or one replica of it, with its first version published."""
        program, streams, life = self.program, self.streams, self.life
        algorithm = program.policies[policy].algorithm
        if (shared := streams.shared(f"version/{policy}")) is not None:
            settle_in(shared, algorithm, fill=False)
        replica = Replica(rank, program.trainers, in_step=not program.hogwild)
        shards = program.shards(program.policies[policy])
        producers = [] if shards else program.producers_of(rank)
        rings = [streams.ring(f"sample/{producer}/{policy}") for producer in producers]
        size = len(rings) * program.fewest_actors // program.actors
        reader = SampleReader(rings, exact=program.exact or program.hogwild, waiter=streams.waiter, size=size)
        trainer = TrainerWorker(
            policy, algorithm, self._learner(policy, replica), reader, streams.publisher(f"version/{policy}", rank),
            max_lag=program.max_lag, replica=replica, leave=self._leave(policy, replica),
            archives=self._archives(policy, rank), replay=self._replay(program.policies[policy], rank),
            feed=self._feed(program.policies[policy]) if shards else None,
            faults=self._faults("trainer", Job("trainer", rank, policy).name),
        )  # fmt: skip
        if life.start is not None:
            trainer.restore(life.start.tensors, life.start.version)
            if life.whole and not life.incarnation:
                trainer.publish_older(versions_before(life.start, policy))
            if (kept := self._contents(trainer.name)) is not None:
                trainer.restore_replay(kept)
        if life.incarnation:
            reader.recover(life.rounds[policy])
            trainer.version = life.versions[policy]
        trainer.steps = life.steps
        trainer.start()
        return trainer

    def _archives(self, policy: str, rank: int) -> list[Archive]:
        """Where those who play as earlier versions find them."""
        pasts = {name: plan.role.config.past for name, plan in self.program.players.items()}
        return [
            make_archive(self.program, past, self.streams.mailbox(f"past/{name}"), self.life.version)
            for name, past in pasts.items()
            if past is not None and past.of == policy and rank == 0
        ]

    def _replay(self, plan: PolicyPlan, rank: int) -> ReplayFeed | None:
        """A replica's share of the buffer; a trainer that starts anew begins with an empty one."""
        needs, replicas = plan.algorithm.needs.replay, self.program.trainers
        if needs is None or self.program.buffers:
            return None
        saved = saves_replay(self.program, plan)
        return ReplayFeed(needs, make_replay(self.program, plan, needs, rank, replicas), replicas, saved=saved)

    def _contents(self, worker: str) -> Tree | None:
        """What the checkpoint keeps of a worker; None: it begins anew, as it does after a death."""
        start = self.life.start
        if start is None or self.life.incarnation or not fits(self.program, start):
            return None
        return contents_of(start, worker)

    def _feed(self, plan: PolicyPlan) -> PrefetchedFeed:
        """The trainer's end of its buffer workers. In one thread nobody dies, so there all are waited for."""
        needs, shards = plan.algorithm.needs.replay, range(self.program.buffers)
        assert needs is not None, "it replays"
        reader = BatchReader(
            [self.streams.ring(f"batch/{shard}/{plan.name}") for shard in shards],
            [self.streams.ring(f"priority/{shard}/{plan.name}") for shard in shards],
            waiter=self.streams.waiter, patience=PATIENCE if self.supervised else math.inf,
        )  # fmt: skip
        if self.life.incarnation:
            reader.recover()
        return PrefetchedFeed(needs, reader)

    def _learner(self, policy: str, replica: Replica) -> Learner:
        if replica.of == 1 or not replica.in_step:
            return SoloLearner()
        return AllreduceLearner(self.streams.tally(f"tally/{policy}"), replica.rank, patience=FOREVER)

    def _leave(self, policy: str, replica: Replica) -> Leave | None:
        if not (self.supervised and replica.speaks):
            return None
        return Leave(self.streams.mailbox(f"leave/{policy}/{replica.rank}"), self.streams.waiter)

    # ------------------------------------------------------------ policy worker

    def policy_worker(self, policy: str, index: int) -> PolicyWorker:
        """One of the policy workers of a policy."""
        copy, flat = self.program.policies[policy].copy_policy()
        lines = [
            AskLine(self.streams.ring(f"ask/{producer}/{policy}"), self.streams.ring(f"answer/{producer}/{policy}"))
            for producer in clients_of(self.program, index)
        ]
        name = f"policy-{policy}-{index}"
        reader = self._reader(policy, flat)
        return PolicyWorker(name, copy, reader, lines, self.streams.waiter, faults=self._faults("policy", name))

    # ------------------------------------------------------------ buffer worker

    def buffer(self, policy: str, shard: int) -> BufferWorker:
        """One of the buffer workers of a policy; each life begins empty."""
        program, streams, life = self.program, self.streams, self.life
        plan = program.policies[policy]
        needs = plan.algorithm.needs.replay
        assert needs is not None, "it replays"
        buffer = make_replay(program, plan, needs, shard, program.buffers, life=(life.incarnation, life.version))
        mine = [producer for producer in range(program.producers) if shard_of(program, producer) == shard]
        rings = [streams.ring(f"sample/{producer}/{policy}") for producer in mine]
        name = Job("buffer", shard, policy).name
        worker = BufferWorker(
            name, buffer, make_rate(program, plan, needs), SampleReader(rings, exact=False, size=1),
            PartWriter(streams.ring(f"batch/{shard}/{policy}"), streams.ring(f"priority/{shard}/{policy}")),
            streams.waiter, life=life.incarnation, saved=saves_replay(program, plan), faults=self._faults("buffer", name),
        )  # fmt: skip
        if (kept := self._contents(name)) is not None:
            worker.restore(kept)
        return worker

    # ------------------------------------------------------------ evaluation

    def evaluation(self, name: str) -> EvaluationWorker:
        """A worker with worlds of its own. Where a trainer lives beside it, it has algorithms of its own to load versions into."""
        program = self.program if self.supervised else expand(self.program.experiment)
        experiment = program.experiment
        assert experiment.evaluation is not None, "hosts_of"
        assert self.checkpoints is not None, "a run with evaluations has a folder"
        env: Env = StagedEnv(experiment, copies_for(experiment.evaluation.episodes))
        env.watched = experiment.evaluation.metrics
        last = max(0, len(experiment.curriculum) - 1)
        rules = Rules(experiment.evaluation, experiment.stop, experiment.seed, experiment.env.timeout, last)
        return EvaluationWorker(
            name, env, self.streams.mailbox("evaluate"), CheckpointStore(self.checkpoints), make_judge(program, env),
            rules, self.streams.waiter, judged=self.life.judged, pulse=self.pulse,
            faults=self._faults("evaluation", name), clips=self._clips(program, self.checkpoints.with_name("videos")),
        )  # fmt: skip

    def _clips(self, program: Program, folder: Path) -> Clips | None:
        evaluation = program.experiment.evaluation
        if evaluation is None or evaluation.video is None:
            return None
        env = StagedEnv(program.experiment, 1, render=True)
        check_drawn(env, program.experiment.env.id)
        return Clips(folder, evaluation.video, env, make_judge(program, env))

    # ------------------------------------------------------------ actor

    def actor(self, index: int) -> ActorWorker:
        """An actor with its share of the env copies: a ring of rollouts."""
        ring = self.program.experiment.placement.ring
        shares = Shares("actor")
        mark = shares.switch if self.program.experiment.placement.inference == "inline" else None
        rollouts = [self._rollout(producer, mark) for producer in range(index * ring, (index + 1) * ring)]
        name = f"actor-{index}"
        actor = ActorWorker(
            name, rollouts, shares, self.streams.waiter, pulse=self.pulse, faults=self._faults("actor", name)
        )
        if self.life.whole and (begun := self._contents(name)) is not None:
            actor.restore(begun)
        return actor

    def _rollout(self, producer: int, mark: Callable[[str], object] | None) -> Rollout:
        """Env copies and their seats."""
        experiment, copies = self.program.experiment, self.program.envs_per_producer
        stages = None
        if experiment.curriculum:
            build = partial(self._worlds, producer)
            stages = MailboxStages(experiment, self.streams.mailbox(STAGE), build)
        env = self._worlds(producer, 0 if stages is None else stages.stage)
        seats = [self._seat(plan, producer) for plan in self.program.players.values()]
        seed = derive_seed(experiment.seed, "env", self.life.incarnation, self.life.version)
        deal = make_deal(self.program, copies, seed=seed, first_slot=producer * copies)
        # Where others learn meanwhile, rounds up to the lag and one more may be posted when a checkpoint is due.
        ahead = self.supervised or self.program.max_lag
        keep = self.program.max_lag + 2 if self.program.exact and ahead else 0
        return Rollout(
            env,
            seats,
            seed=seed,
            timeout=experiment.env.timeout,
            mark=mark,
            deal=deal,
            keep=keep,
            stages=stages,
            producer=producer,
        )

    def _worlds(self, producer: int, stage: int) -> Env:
        experiment, copies = self.program.experiment, self.program.envs_per_producer
        env = make_staged(experiment, stage, copies, first_slot=producer * copies)
        if experiment.env.background and self.streams.wake is not None:
            return BackgroundEnv(env, done=self.streams.wake)
        return env

    def _seat(self, plan: PlayerPlan, producer: int) -> Seat:
        """A later life goes on at the round that its predecessor left open, with randomness that was not used yet."""
        if not isinstance(plan, PolicyPlan):
            return self._player(plan, producer)
        needs, life, policy = plan.algorithm.needs, self.life, plan.algorithm.policy
        ring = self.streams.ring(f"sample/{producer}/{plan.name}")
        round_ = life.version + ring.posted
        writer = SampleWriter(ring, producer, incarnation=life.incarnation, posted=round_)
        lanes = self._lanes(plan, producer)
        clip, prepare = self.program.experiment.env.clip_reward, plan.algorithm.prepare
        builder = TrajectoryBuilder(needs, lanes, writer, clip_reward=clip, prepare=prepare)
        return make_seat(
            plan, self._client(plan, producer), policy, self._noise(plan, lanes, policy.noise_size), builder,
            decisions=(round_ + life.incarnation) * needs.unroll,
        )  # fmt: skip

    def _player(self, plan: PlayerPlan, producer: int) -> Seat:
        lanes = self._lanes(plan, producer)
        policy, client, noise = make_player(self.program, plan, self.streams, self.life.version, len(lanes))
        decisions = self.life.incarnation << 32
        return make_seat(plan, client, policy, self._noise(plan, lanes, noise), decisions=decisions)

    def _lanes(self, plan: PlayerPlan, producer: int) -> np.ndarray:
        count = plan.lanes // self.program.producers
        return np.arange(producer * count, (producer + 1) * count)

    def _noise(self, plan: PlayerPlan, lanes: np.ndarray, size: int) -> Noise:
        return Noise(self.program.experiment.seed, f"actions of {plan.name}", lanes, size)

    def _client(self, plan: PolicyPlan, producer: int) -> InferenceClient:
        if self.program.experiment.placement.inference == "worker":
            name = f"{producer}/{plan.name}"
            return RingInference(self.streams.ring(f"ask/{name}"), self.streams.ring(f"answer/{name}"))
        policy, flat = plan.copy_policy()
        return InlineInference(policy, self._reader(plan.name, flat))

    def _reader(self, policy: str, flat: Flat) -> ParameterReader:
        program = self.program
        mailbox = self.streams.mailbox(f"version/{policy}")
        start = max(0, self.life.version - program.max_lag) if self.life.whole else self.life.version
        return ParameterReader(mailbox, flat, max_lag=program.max_lag, start=start, exact=program.exact)

    def _faults(self, kind: str, name: str) -> Faults:
        return Faults(self.faults, kind, name, self.life.incarnation)
