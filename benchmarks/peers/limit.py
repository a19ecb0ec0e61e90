"""What one core needs for the parts that nobody can leave out, in seconds per environment step; prints one JSON line.

env: the world's object stepped with random actions. inference: one batched decision of the policy, per row; decision: the same
by Shoal's own way. Training is one step along a minibatch (forward, backward, clipping, Adam), per row and pass: by autograd, and
by hand where there is a kernel.
All in one thread, as seconds of CPU: other programs weigh less on those.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from shoal_ppo import experiment_of

from shoal.algorithms.actor_critic.minibatches import Experience
from shoal.algorithms.learner import SoloLearner
from shoal.api.experiment import Experiment
from shoal.api.policy import Request
from shoal.envs import make_env
from shoal.program.expand import expand
from shoal.rollout.plans import Plans
from shoal.streams.inference import Ask, decide

CHUNKS, CHUNK = 5, 0.4
"""How often, and how many seconds each time."""


def seconds_per_call(call: Callable[[], object]) -> float:
    """Of CPU; the median over chunks, the first of which warms up."""
    found = []
    for _ in range(CHUNKS + 1):
        began, calls = time.process_time(), 0
        while time.process_time() - began < CHUNK:
            call()
            calls += 1
        found.append((time.process_time() - began) / calls)
    return statistics.median(found[1:])


def env_seconds(settings: dict[str, Any]) -> float:
    """Of one copy advancing once, at random."""
    if settings["world"] == "cartpole":
        return _cartpole_seconds()
    return batch_seconds(experiment_of(settings))


def batch_seconds(experiment: Experiment) -> float:
    """Of one copy advancing once within its batch."""
    copies = experiment.env.num_envs
    env = make_env(experiment.env, copies)
    (name, group), draw = next(iter(env.groups.items())), np.random.default_rng(1)
    drawn = [draw.integers(group.action_space.n, size=(copies, 1)) for _ in range(64)]
    env.reset(1)

    def play() -> None:
        for actions in drawn:
            env.step({name: actions})

    try:
        return seconds_per_call(play) / (len(drawn) * copies)
    finally:
        env.close()


def _cartpole_seconds() -> float:
    """The very object that all sides step, without anybody's loop around it."""
    import gymnasium

    env = gymnasium.make("CartPole-v1", disable_env_checker=True)
    env.reset(seed=1)
    drawn = np.random.default_rng(1).integers(2, size=1000).tolist()

    def play() -> None:
        for action in drawn:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return seconds_per_call(play) / len(drawn)


class Mind:
    """The policy and its algorithm, over made-up observations."""

    def __init__(self, settings: dict[str, Any]) -> None:
        (plan,) = Plans(expand(experiment_of({**settings, "shape": "inline"}))).values()
        self.algorithm, self.space = plan.algorithm, plan.spec.group.observation_space
        self.copies, self.rows = settings["num_envs"], settings["minibatch"]
        self.actions, self.learner = plan.spec.group.action_space.n, SoloLearner()

    def _observations(self, count: int) -> torch.Tensor:
        if self.space.dtype == np.uint8:
            return torch.randint(256, (count, *self.space.shape), dtype=torch.uint8)
        return torch.randn(count, *self.space.shape)

    def inference(self) -> float:
        """One forward and one draw by torch, per row of a batch of all copies."""
        policy, ask = self.algorithm.policy, self._ask()
        request = Request(*(torch.from_numpy(array) for array in (ask.observation, ask.first, ask.noise)))

        @torch.inference_mode()
        def act() -> None:
            policy.act(request, explore=True)

        return seconds_per_call(act) / self.copies

    def decision(self) -> float:
        """The same from arrays to arrays, in the way in which Shoal's actors decide."""
        policy, ask = self.algorithm.policy, self._ask()
        return seconds_per_call(lambda: decide(policy, ask, explore=True, version=0)) / self.copies

    def _ask(self) -> Ask:
        noise = np.random.default_rng(1).random((self.copies, self.algorithm.policy.noise_size), np.float32)
        return Ask(self._observations(self.copies).numpy(), np.zeros(self.copies, bool), noise, None, None)

    def train(self, *, by_hand: bool) -> float | None:
        """Per row of a minibatch; None where no kernel suits."""
        passes, n = self.algorithm.passes, self.rows
        kernel = passes.kernel
        if by_hand and kernel is None:
            return None
        part = Experience(
            self._observations(n).unsqueeze(0), torch.randint(self.actions, (1, n)),
            torch.full((1, n), -float(np.log(self.actions))), torch.randn(1, n), torch.randn(1, n), torch.zeros(1, n),
            torch.zeros(1, n, dtype=torch.bool), None, None, None,
        )  # fmt: skip
        passes.kernel = kernel if by_hand else None
        try:
            return seconds_per_call(lambda: self.learner.step(passes.loss(part, 0.0), self.algorithm.optimiser)) / n
        finally:
            passes.kernel = kernel


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    env, mind = env_seconds(settings), Mind(settings)
    found = {"env": env, "inference": mind.inference(), "decision": mind.decision()}
    print(json.dumps({**found, "autograd": mind.train(by_hand=False), "by_hand": mind.train(by_hand=True)}))


if __name__ == "__main__":
    main()
