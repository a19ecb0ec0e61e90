"""A trainer that dies goes on with what it had learned: parameters, optimiser, counters; at most the update in hand is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shoal.api.experiment import Experiment
from shoal.checkpoints.store import CheckpointStore
from shoal.program.expand import expand
from shoal.rollout.plans import Plans
from shoal.streams.transports.memory import MemoryMailbox
from shoal.testing.device import DEVICE
from shoal.workers import shadow
from shoal.workers.shadow import Shadow, shadow_nbytes
from tests.launchers.live import Run, experiment, notes, train
from tests.launchers.processes import nothing_left


def algorithm(seed: int = 0) -> Any:
    tree = {"env": "CartPole-v1", "seed": seed, "algorithm": {"name": "ppo"}}
    return Plans(expand(Experiment.parse(tree)))["agent"].algorithm


def bytes_of(algorithm: Any) -> list[bytes]:
    return [block.cpu().numpy().tobytes() for block in algorithm.blocks()]


@pytest.mark.parametrize("device", [torch.device("cpu"), DEVICE], ids=str)
def test_all_that_was_learned_comes_back(device: torch.device) -> None:
    first, second = algorithm(1), algorithm(2)
    for each in (first, second):
        each.to(device)
    mailbox = MemoryMailbox(shadow_nbytes(first), 1)
    first.optimisers[0].statistics.block.fill_(7)
    first.updates = 1 << 40
    assert Shadow(second, mailbox).restore() is None
    Shadow(first, mailbox).keep(12)
    assert bytes_of(first) != bytes_of(second)
    assert Shadow(second, mailbox).restore() == 12
    assert bytes_of(first) == bytes_of(second)
    assert second.updates == 1 << 40


def test_copies_take_a_share_of_the_time_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(shadow.time, "perf_counter", lambda: now)

    class Slow(MemoryMailbox):
        def publish(self, version: int, block: np.ndarray, keep: Any = ()) -> None:
            nonlocal now
            now += 0.1
            super().publish(version, block, keep)

    learning = algorithm()
    mailbox, kept = Slow(shadow_nbytes(learning), 1), []
    shadow_ = Shadow(learning, mailbox)
    for version in range(1, 101):
        shadow_.keep(version)
        kept.append(mailbox.latest())
        now += 1.0
    assert kept[:7] == [1, 1, 1, 1, 1, 6, 6]
    assert 18 <= len(set(kept)) <= 20, "a tenth of a second each, so one in five seconds"


CASES: dict[str, dict[str, Any]] = {
    "alone": {"placement": {"actors": 2}},
    "in step": {"placement": {"trainers": 2}},
    "averaging": {"placement": {"trainers": 2, "agree": {"name": "average", "every": 2, "alpha": 0.5}}},
    "exact": {"placement": {"actors": 2, "max_lag": 0, "exact": True}},
}


@pytest.mark.parametrize("case", CASES)
def test_before_the_first_checkpoint(case: str, tmp_path: Path) -> None:
    """By default checkpoints are minutes apart."""

    def said() -> list[str]:
        (folder,) = tmp_path.glob("*/*")
        return [text for _, text in notes(folder) if text.startswith("trainer-agent-0 goes on at version")]

    def look(run: Run) -> None:
        run.go_on(20)
        for kill in range(3):
            run.kill("trainer-agent-0")
            run.until(lambda _, kill=kill: len(said()) > kill, "word of its next life")  # type: ignore[misc]
            run.go_on(10)

    with nothing_left():
        outcome, _ = train(experiment(**CASES[case]), tmp_path, look)
    assert len(said()) == 3
    assert not [text for text in said() if "begins anew" in text], said()
    learned = CheckpointStore(outcome.folder / "checkpoints").latest().tensors
    minibatches = 32 * 8 // 64 * 4  # of an update, in all epochs
    steps = int(learned["agent/optimiser.steps"])
    replicas = 2 if case == "averaging" else 1
    assert steps >= minibatches * (outcome.version - 4) / replicas / 1.5, "nothing of what the optimiser knew was lost"
