"""The inline launcher: every worker in this one thread, polled in turn over in-memory streams.

Deterministic and easy to step through with a debugger: from `env.step` in the actor's poll to `algorithm.update` in the
trainer's, everything happens on one stack. It is what every other launcher is compared with.
"""

from __future__ import annotations

import numpy as np

from shoal.api.worker import Worker
from shoal.base.errors import ShoalError
from shoal.base.seeding import Noise, derive_seed
from shoal.base.tree import tree_map
from shoal.checkpoints.store import Checkpoint
from shoal.envs import make_env
from shoal.launchers.interrupts import Interrupts
from shoal.launchers.program import PolicyPlan, Program
from shoal.rollout.rollout import Rollout
from shoal.rollout.seat import Seat
from shoal.rollout.trajectory import TrajectoryBuilder
from shoal.streams.inference import InlineInference
from shoal.streams.parameter import ParameterReader
from shoal.streams.primitives import Mailbox
from shoal.streams.sample import SampleReader, SampleWriter
from shoal.streams.transports.memory import MemoryMailbox, MemoryRing
from shoal.workers.actor import ActorWorker
from shoal.workers.controller import Controller
from shoal.workers.trainer import TrainerWorker


class InlineLauncher:
    """Builds the workers of a program around in-memory streams, then polls them until the controller has a reason to stop."""

    def __init__(self, program: Program, start: Checkpoint | None = None) -> None:
        self._program = program
        self.mailboxes: dict[str, Mailbox] = {}
        self.trainers: dict[str, TrainerWorker] = {}
        version = start.version if start else 0
        seats = [self._build_policy(name, plan, start, version) for name, plan in program.policies.items()]
        experiment = program.experiment
        env = make_env(experiment.env, experiment.env.num_envs)
        rollout = Rollout(env, seats, seed=derive_seed(experiment.seed, "env", counter=version))
        self._workers: list[Worker] = [ActorWorker("actor-0", rollout), *self.trainers.values()]

    def _build_policy(self, name: str, plan: PolicyPlan, start: Checkpoint | None, version: int) -> Seat:
        """Ring, mailbox and trainer of one policy; the seat its actor takes."""
        program, needs = self._program, plan.algorithm.needs
        ring = MemoryRing(plan.layout(), program.slots)
        mailbox = self.mailboxes[name] = MemoryMailbox(plan.algorithm.flat.nbytes, program.slots)
        trainer = self.trainers[name] = TrainerWorker(name, plan.algorithm, SampleReader([ring]), mailbox)
        if start is not None:
            trainer.restore(start.tensors, name, version, start.meta["steps"])
        trainer.start()
        policy, flat = plan.copy_policy()
        client = InlineInference(policy, ParameterReader(mailbox, flat, max_lag=program.max_lag, start=version))
        lanes = np.arange(plan.lanes)
        noise = Noise(program.experiment.seed, f"actions of {name}", lanes, policy.noise_size)
        state = tree_map(lambda t: t.numpy(), policy.initial_state(plan.lanes))
        builder = TrajectoryBuilder(needs, lanes, SampleWriter(ring, producer=0, posted=version))
        return Seat(name, client, noise, state, builder, decisions=version * needs.unroll)

    def run(self, controller: Controller) -> str | None:
        """Poll until there is a reason to stop; the name of the signal that ended it, if one did."""
        with Interrupts() as interrupts:
            while controller.reason is None:
                worked = False
                for worker in self._workers:
                    report = worker.poll(0.0)
                    worked |= report.worked
                    controller.receive(report)
                if interrupts.caught:
                    controller.stop(f"interrupted by {interrupts.caught}")
                elif not worked:
                    raise ShoalError("no worker can go on: a worker waits for something that nobody will give")
            return interrupts.caught

    def close(self) -> None:
        """Free what the workers hold."""
        for worker in self._workers:
            worker.close()
