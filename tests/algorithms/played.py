"""Fragments as an actor posts them: real environments, played by an algorithm's policy as it is."""

from __future__ import annotations

import numpy as np
import torch

from shoal.api.algorithm import Algorithm, Task
from shoal.api.env import Env
from shoal.api.fragment import Fragment
from shoal.base.seeding import Noise
from shoal.base.tree import tree_map
from shoal.rollout.players import FixedInference
from shoal.rollout.rollout import Progress, Rollout, run_one
from shoal.rollout.seat import Seat
from shoal.rollout.trajectory import TrajectoryBuilder
from shoal.streams.sample import SampleReader, SampleWriter, fragment_layout
from shoal.streams.transports.memory import MemoryRing


def task_of(env: Env) -> Task:
    return Task(env.groups["agent"], env.num_envs, 1)


def played(algorithm: Algorithm, env: Env, count: int) -> list[Fragment]:
    """The first `count` fragments, of tensors."""
    lanes, policy, needs = np.arange(env.num_envs), algorithm.policy, algorithm.needs
    ring = MemoryRing(fragment_layout(env.groups["agent"], needs, policy, len(lanes), None), 1)
    reader = SampleReader([ring])
    builder = TrajectoryBuilder(needs, lanes, SampleWriter(ring, producer=0), prepare=algorithm.prepare)
    state = tree_map(lambda t: t.numpy().copy(), policy.initial_state(len(lanes)))
    noise = Noise(1, "actions", lanes, policy.noise_size)
    seat = Seat("agent", "agent", FixedInference(policy, explore=True), noise, state, builder)
    rollout, fragments = Rollout(env, [seat], seed=3), []
    while len(fragments) < count:
        run_one(rollout, Progress())
        taken = reader.take(0.0)
        if taken is not None:
            fragments.append(taken[0].fragment.map(lambda array: torch.from_numpy(array.copy())))
            reader.free()
    return fragments
