"""TorchRL's side of `replay.py`: tensors and its sum tree in C++; prints one JSON line."""

from __future__ import annotations

import json
import sys

import torch
import torchrl
from replay_work import PREPARED, Work, report
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer


def step(work: Work, number: int) -> TensorDict:
    """One step of all copies, as its collectors shape it."""
    copies, terminated = work.copies, torch.from_numpy(work.terminated[number])
    after = {
        "observation": torch.from_numpy(work.observations[number + 1]),
        "reward": torch.ones(copies, 1),
        "terminated": terminated[:, None],
        "truncated": torch.zeros(copies, 1, dtype=torch.bool),
        "done": terminated[:, None],
    }
    now = {
        "observation": torch.from_numpy(work.observations[number]),
        "action": torch.from_numpy(work.actions[number]),
    }
    return TensorDict({**now, "next": TensorDict(after, [copies])}, [copies])


def main() -> None:
    settings = json.loads(sys.argv[1])
    work = Work(settings)
    torch.set_num_threads(1)
    torch.manual_seed(work.seed)
    steps = [step(work, number) for number in range(PREPARED)]
    priorities = torch.from_numpy(work.priorities)
    storage = LazyTensorStorage(work.capacity)
    replay = TensorDictPrioritizedReplayBuffer(alpha=0.6, beta=0.4, storage=storage, batch_size=work.batch)

    def play(number: int) -> None:
        replay.update_priority(replay.sample()["index"], priorities[number % PREPARED])

    version = f"torchrl {torchrl.__version__}, torch {torch.__version__}"
    report(work, lambda number: replay.extend(steps[number]), play, version)


if __name__ == "__main__":
    main()
