"""The trainer without a run around it: batches joined in order, bad ones dropped whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from gymnasium import spaces

from shoal.api.algorithm import Algorithm, Learner, Needs, NonFiniteError, Update
from shoal.api.env import AgentGroup
from shoal.api.fragment import Fragment
from shoal.api.messages import Reconfigured, Saved, Updated
from shoal.api.orders import Flush, LoadWeights, Reconfigure, Save
from shoal.base.flat import Flat
from shoal.checkpoints.store import CheckpointStore
from shoal.streams.gate import NBYTES, Gate, GateKeeper
from shoal.streams.sample import SampleReader, SampleWriter, account, fragment_layout
from shoal.streams.transports.memory import MemoryMailbox, MemoryRing, NoWaiting
from shoal.workers.sources import FreshSource
from shoal.workers.trainer import TrainerWorker
from tests.streams.test_streams import Echo
from tests.workers.said import alone, only

GROUP = AgentGroup(("a",), spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2))


class Adding(Algorithm):
    """Adds one to its parameter for every batch, and half a one before it fails."""

    def __init__(self) -> None:
        self.needs = Needs(2)
        self.policy = Echo()
        self.flat = Flat(self.policy, gradients=True)
        self.optimisers = ()
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
    trainer = TrainerWorker("trainer", algorithm, alone(mailbox), FreshSource(SampleReader(list(made))))
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
    assert trainer.poll(0.0) == []
    send(writers[0], 0.0)
    said = only(trainer.poll(0.0), Updated)
    assert (said.policy, said.version, said.replica, said.steps, said.trained) == ("p", 1, 0, 12, True)
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
    said = only(trainer.poll(0.0), Updated)
    assert said.version == 2
    assert said.metrics["train/dropped_not_finite"].value == 4
    assert algorithm.flat.parameters.item() == 2.0
    block = np.zeros(algorithm.flat.nbytes, np.uint8)
    assert mailbox.read(2, block)
    assert block.view(np.float32)[0] == 2.0


def test_bad_numbers_never_reach_the_algorithm() -> None:
    trainer, algorithm, writers, _ = build()
    send(writers[0], float("nan"))
    assert only(trainer.poll(0.0), Updated).metrics["train/dropped_not_finite"].value == 4
    assert algorithm.seen == []


def test_a_life_that_died_after_it_published_is_gone_on_with() -> None:
    """Its successor comes from an older checkpoint, but others act with that version already."""
    first, _, writers, mailbox = build()
    send(writers[0], 1.0)
    assert only(first.poll(0.0), Updated).version == 1
    algorithm = Adding()
    algorithm.flat.parameters.fill_(-7.0)
    second = TrainerWorker("trainer", algorithm, alone(mailbox), FreshSource(SampleReader([])))
    second.version = 1
    second.start()
    assert torch.equal(algorithm.flat.parameters, first.algorithm.flat.parameters)
    algorithm.flat.parameters.fill_(-7.0)
    second.version = 2
    second.start()
    assert mailbox.latest() == 2
    assert (algorithm.flat.parameters == -7.0).all()


# ---------------------------------------------------------------- gates and orders


def gated() -> tuple[TrainerWorker, Adding, SampleWriter, GateKeeper, MemoryRing]:
    algorithm = Adding()
    ring = MemoryRing(fragment_layout(GROUP, algorithm.needs, algorithm.policy, 2, None), 1)
    mailbox, box = MemoryMailbox(algorithm.flat.nbytes, 1), MemoryMailbox(NBYTES, 1)
    gate = Gate(box, NoWaiting())
    trainer = TrainerWorker("trainer", algorithm, alone(mailbox), FreshSource(SampleReader([ring])), gate=gate)
    trainer.start()
    return trainer, algorithm, SampleWriter(ring, 0), GateKeeper(box), ring


def test_it_rests_after_each_update_until_its_gate_is_opened() -> None:
    trainer, _, writer, keeper, _ = gated()
    send(writer, 0.0)
    assert only(trainer.poll(0.0), Updated).version == 1
    send(writer, 0.0)
    assert trainer.poll(0.0) == []
    keeper.open(1)
    assert only(trainer.poll(0.0), Updated).version == 2


def test_a_policy_that_is_through_lets_go_of_what_comes_without_learning() -> None:
    trainer, algorithm, writer, keeper, ring = gated()
    send(writer, 0.0)
    trainer.poll(0.0)
    learned = algorithm.flat.block.clone()
    keeper.open(1, drain=True)
    send(writer, 0.0)
    said = only(trainer.poll(0.0), Updated)
    assert (said.trained, said.steps) == (False, 6), "no steps are behind it but those of the first"
    assert said.metrics["train/dropped_surplus"].value == 4
    assert len(algorithm.seen) == 1
    assert torch.equal(algorithm.flat.block, learned)
    assert (account(ring).outcomes["surplus"], account(ring).outcomes["trained"]) == (4, 4)
    assert writer.begin(0.0) is not None, "nobody waits for it"


def test_it_saves_when_it_is_told_to(monkeypatch: Any) -> None:
    trainer, algorithm, _, _ = build()
    monkeypatch.setattr(algorithm, "state_dict", lambda: {"weight": torch.arange(3.0)})
    saved = only(trainer.handle(Save(7, 0)), Saved)
    assert (saved.worker, saved.request) == ("trainer", 7)
    assert safetensors.torch.load(saved.learned)["weight"].tolist() == [0.0, 1.0, 2.0]


def test_settings_change_by_order_and_are_read_back(monkeypatch: Any) -> None:
    trainer, algorithm, _, _ = build()
    monkeypatch.setattr(algorithm, "reconfigure", lambda changes: {**changes, "clip": 0.2})
    assert trainer.handle(Reconfigure("p", {"lr": 0.5})) == [Reconfigured("p", {"lr": 0.5, "clip": 0.2})]
    assert trainer.handle(Reconfigure("other", {"lr": 0.5})) == [], "that is another policy's"
    assert trainer.handle(Flush(0, "p", 1)) == [], "that is another worker's"


def test_weights_of_a_checkpoint_are_loaded_by_order(tmp_path: Path, monkeypatch: Any) -> None:
    trainer, algorithm, _, _ = build()
    loaded: list[dict[str, torch.Tensor]] = []
    monkeypatch.setattr(algorithm, "load_state_dict", loaded.append)
    CheckpointStore(tmp_path).save(3, {"best/weight": torch.ones(1), "other/weight": torch.zeros(1)}, {"steps": 1})
    assert trainer.handle(LoadWeights("other", str(tmp_path), 3, "best")) == []
    assert loaded == []
    trainer.handle(LoadWeights("p", str(tmp_path), 3, "best"))
    assert [{name: tensor.item() for name, tensor in state.items()} for state in loaded] == [{"weight": 1.0}]
