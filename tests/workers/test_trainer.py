"""The trainer without a run around it: batches joined in order, bad ones dropped whole."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces

from shoal.algorithms.learner import SoloLearner
from shoal.api.algorithm import Algorithm, Learner, Needs, NonFiniteError, Update
from shoal.api.env import AgentGroup
from shoal.api.fragment import Fragment
from shoal.base.flat import Flat
from shoal.streams.sample import SampleReader, SampleWriter, fragment_layout
from shoal.streams.transports.memory import MemoryMailbox, MemoryRing
from shoal.workers.trainer import TrainerWorker
from tests.streams.test_streams import Echo

GROUP = AgentGroup(("a",), spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2))


class Adding(Algorithm):
    """Adds one to its parameter for every batch, and half a one before it fails."""

    def __init__(self) -> None:
        self.needs = Needs(2)
        self.policy = Echo()
        self.flat = Flat(self.policy, gradients=True)
        self.seen: list[Fragment] = []
        self.fail = False

    def update(self, batch: Fragment, learner: Learner) -> Update:
        self.seen.append(batch.map(torch.clone))
        self.flat.parameters.add_(0.5)
        if self.fail:
            raise NonFiniteError("half way")
        self.flat.parameters.add_(0.5)
        return Update()

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        return


def build(rings: int = 1) -> tuple[TrainerWorker, Adding, list[SampleWriter], MemoryMailbox]:
    algorithm = Adding()
    made = [MemoryRing(fragment_layout(GROUP, algorithm.needs, algorithm.policy, 2, None), 1) for _ in range(rings)]
    mailbox = MemoryMailbox(algorithm.flat.nbytes, 1)
    trainer = TrainerWorker("trainer", algorithm, SoloLearner(), SampleReader(list(made)), mailbox)
    trainer.start()
    return trainer, algorithm, [SampleWriter(ring, i) for i, ring in enumerate(made)], mailbox


def send(writer: SampleWriter, number: float) -> None:
    posted = writer.begin(0.0)
    assert posted is not None
    posted.fragment.reward[:] = number
    posted.fragment.observation[:] = number
    posted.header["steps"] = 6
    posted.header["rows"] = 4
    writer.post(posted)


def test_waits_for_a_whole_round_and_joins_it_in_ring_order() -> None:
    trainer, algorithm, writers, _ = build(2)
    send(writers[1], 1.0)
    assert not trainer.poll(0.0).worked
    send(writers[0], 0.0)
    report = trainer.poll(0.0)
    assert (report.version, report.trained_steps) == (1, 12)
    assert algorithm.seen[0].reward[0].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert algorithm.seen[0].observation.shape == (3, 4, 3)


def test_slots_are_freed_after_the_version_is_published() -> None:
    trainer, _, writers, mailbox = build()
    send(writers[0], 0.0)
    assert writers[0].begin(0.0) is None
    trainer.poll(0.0)
    assert mailbox.latest() == 1
    assert writers[0].begin(0.0) is not None


def test_a_batch_that_fails_half_way_leaves_no_trace() -> None:
    trainer, algorithm, writers, mailbox = build()
    send(writers[0], 0.0)
    trainer.poll(0.0)
    algorithm.fail = True
    send(writers[0], 0.0)
    report = trainer.poll(0.0)
    assert report.version == 2
    assert report.metrics["train/dropped_not_finite"].value == 4
    assert algorithm.flat.parameters.item() == 2.0
    block = np.zeros(algorithm.flat.nbytes, np.uint8)
    assert mailbox.read(2, block)
    assert block.view(np.float32)[0] == 2.0


def test_bad_numbers_never_reach_the_algorithm() -> None:
    trainer, algorithm, writers, _ = build()
    send(writers[0], float("nan"))
    assert trainer.poll(0.0).metrics["train/dropped_not_finite"].value == 4
    assert algorithm.seen == []


def test_a_life_that_died_after_it_published_is_gone_on_with() -> None:
    """Its successor comes from an older checkpoint, but others act with that version already."""
    first, _, writers, mailbox = build()
    send(writers[0], 1.0)
    assert first.poll(0.0).version == 1
    algorithm = Adding()
    algorithm.flat.parameters.fill_(-7.0)
    second = TrainerWorker("trainer", algorithm, SoloLearner(), SampleReader([]), mailbox)
    second.version = 1
    second.start()
    assert torch.equal(algorithm.flat.parameters, first.algorithm.flat.parameters)
    algorithm.flat.parameters.fill_(-7.0)
    second.version = 2
    second.start()
    assert mailbox.latest() == 2
    assert (algorithm.flat.parameters == -7.0).all()
