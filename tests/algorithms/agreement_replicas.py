"""Replicas for tests: a small regression, trained by allreduce or by hogwild, in threads or as `<this file> <job> <json>`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shoal.algorithms.agreement import AllreduceLearner, adopt_shared
from shoal.algorithms.learner import Adam, SoloLearner
from shoal.api.algorithm import Algorithm, Learner
from shoal.base.flat import Flat
from shoal.streams.transports.shm.shared_block import SharedBlock
from shoal.streams.transports.shm.tally import ShmTally

ROOT = Path(__file__).parents[2]


class Regression(Algorithm):
    """Fits y = sin(x0) + x1 * x2; its statistics are those of a normaliser: counts in float64."""

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
        self.net.register_buffer("seen", torch.zeros((), dtype=torch.float64))
        self.flat = Flat(self.net, gradients=True)
        # by a generator of its own: torch's is shared by all threads
        self.flat.parameters.copy_(rows(7, self.flat.parameters.numel())[:, 0] * 0.3)
        self.optimiser = Adam(self.flat, lr=3e-3, max_grad_norm=1.0)
        self.optimisers = (self.optimiser,)

    def loss(self, x: Tensor) -> Tensor:
        return (self.net(x)[:, 0] - (x[:, 0].sin() + x[:, 1] * x[:, 2])).square().mean()

    def learn(self, x: Tensor, learner: Learner) -> float:
        self.net.get_buffer("seen").add_(learner.mean(torch.tensor(len(x))))
        return learner.step(self.loss(x), self.optimiser, weight=len(x))

    def update(self, *_: Any) -> Any: ...

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any) -> None: ...


def rows(seed: int, count: int) -> Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))


def train(learner: AllreduceLearner, rank: int, steps: int) -> str:
    """Steps on rows of one's own, of unequal number; the bytes of all parameters, buffers and statistics after them."""
    learning = Regression()
    for step in range(steps):
        learning.learn(rows(1000 * rank + step, 1 + (7 * step + 3 * rank) % 20), learner)
    return (learning.flat.block.numpy().tobytes() + learning.optimiser.statistics.block.numpy().tobytes()).hex()


def allreduce(handle: Any, rank: int, steps: int) -> str:
    return train(AllreduceLearner(ShmTally.attach(handle), rank, 20.0), rank, steps)


def hogwild(handle: Any, rank: int, steps: int) -> dict[str, Any]:
    """Train in shared memory, once all are there; the greatest norm of a gradient, and how many updates others made meanwhile."""
    torch.set_num_threads(1)
    shared, learning, learner = SharedBlock.attach(handle), Regression(), SoloLearner()
    adopt_shared(learning, torch.from_numpy(shared.block), torch.from_numpy(shared.beside), fill=False)
    shared.count(rank)
    until = time.monotonic() + 20
    while shared.latest() < shared.handle.replicas:
        assert time.monotonic() < until, "the others did not come in 20 s"
        time.sleep(0.001)
    norms, before = [], shared.latest()
    for step in range(steps):
        norms.append(learning.learn(rows(rank * 100_000 + step, 16), learner))
        shared.count(rank)
    return {"norm": max(norms), "others": shared.latest() - before - steps}


@contextmanager
def replica(job: Callable[..., Any], *arguments: Any) -> Iterator[subprocess.Popen[str]]:
    """A job of this file in a process of its own, which does not outlive the block."""
    command = [sys.executable, __file__, job.__name__, json.dumps(arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


def result(process: subprocess.Popen[str]) -> Any:
    """What the job returned."""
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, f"the replica ended with {process.returncode}"
    return json.loads(out)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*json.loads(sys.argv[2]))))
