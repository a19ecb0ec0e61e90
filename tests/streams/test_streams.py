"""Rounds in a fixed order, versions by round, one padded forward."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from shoal.api.algorithm import Needs
from shoal.api.env import AgentGroup
from shoal.api.policy import Decision, Policy, Request
from shoal.base.flat import Flat
from shoal.streams.inference import Ask, decide
from shoal.streams.parameter import ParameterReader
from shoal.streams.sample import SampleReader, SampleWriter, fragment_layout
from shoal.streams.transports.memory import MemoryMailbox, MemoryRing
from shoal.testing.device import DEVICE

GROUP = AgentGroup(
    ("a",),
    spaces.Dict({"x": spaces.Box(-1, 1, (3,), np.float32), "t": spaces.Tuple([spaces.Discrete(4)])}),
    spaces.MultiDiscrete([2, 3]),
)


class Echo(Policy):
    """Answers with the sum of what it sees, and notes how many rows it was asked for."""

    noise_size = 1
    extras = {"rows": (), "pair": (2,)}

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def initial_state(self, batch: int) -> None:
        return None

    def act(self, request: Request, *, explore: bool) -> Decision:
        total = request.observation["x"].sum(-1) * self.scale
        return Decision(total, {"rows": torch.full_like(total, len(total))}, None)


def test_layout_holds_every_column() -> None:
    layout = fragment_layout(GROUP, Needs(unroll=4, bootstrap=1, burn_in=2), Echo(), lanes=5, mask_width=5)
    fragment = layout.allocate()["fragment"]
    assert fragment["observation"]["x"].shape == (7, 5, 3)
    assert fragment["observation"]["t"][0].shape == (7, 5)
    assert fragment["action"].shape == (7, 5, 2)
    assert fragment["action"].dtype == np.int64
    assert fragment["extras"]["pair"].shape == (7, 5, 2)
    assert fragment["action_mask"].shape == (7, 5, 5)
    assert fragment["state"] is None


def test_a_round_is_ordered_by_ring_not_by_arrival() -> None:
    rings = [MemoryRing(fragment_layout(GROUP, Needs(2), Echo(), 1, None), 2) for _ in range(3)]
    writers = [SampleWriter(ring, producer=i, posted=7) for i, ring in enumerate(rings)]
    reader = SampleReader(list(rings))
    for index in (2, 0):
        posted = writers[index].begin(0.0)
        assert posted is not None
        writers[index].post(posted)
        assert reader.take(0.0) is None
    posted = writers[1].begin(0.0)
    assert posted is not None
    writers[1].post(posted)
    taken = reader.take(0.0)
    assert taken is not None
    assert [p.id for p in taken] == [(0, 0, 7), (1, 0, 7), (2, 0, 7)]
    reader.free()


def test_rounds_pin_versions() -> None:
    policy = Echo()
    flat = Flat(policy, gradients=False)
    box = MemoryMailbox(flat.nbytes, 2)
    reader = ParameterReader(box, flat, max_lag=1)
    assert not reader.pin(0)
    for version in range(3):
        flat.block.view(torch.float32)[0] = version
        box.publish(version, flat.block.numpy())
        if version == 0:
            assert reader.pin(0)
            assert reader.pin(1)
            assert not reader.pin(2)
    assert reader.pin(2)
    assert (reader.version, policy.scale.item()) == (1, 1.0)
    assert reader.pin(3)
    assert (reader.version, policy.scale.item()) == (2, 2.0)
    assert not reader.pin(4)


def test_a_resumed_run_starts_at_its_version() -> None:
    flat = Flat(Echo(), gradients=False)
    box = MemoryMailbox(flat.nbytes, 2)
    box.publish(10, flat.block.numpy())
    reader = ParameterReader(box, flat, max_lag=1, start=10)
    assert reader.pin(10)
    assert reader.pin(11)
    assert not reader.pin(12)


def test_other_devices_see_a_few_sizes() -> None:
    sizes = set()
    for rows in range(65, 129):
        x, noise = np.ones((rows, 3), np.float32), np.zeros((rows, 1), np.float32)
        ask = Ask({"x": x}, np.zeros(rows, np.bool_), noise, None, None)
        here = decide(Echo(), ask, explore=True, version=4)
        there = decide(Echo().to(DEVICE), ask, explore=True, version=4, device=DEVICE)
        assert there.action.shape == (rows,)
        np.testing.assert_array_equal(there.action, here.action)
        assert here.extras["rows"][0] == rows + -rows % 8
        sizes |= set(there.extras["rows"].tolist())
    assert sizes == {80, 96, 112, 128}


def test_forwards_are_padded_to_a_multiple() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(11, 3)).astype(np.float32)
    ask = Ask({"x": x}, np.zeros(11, np.bool_), np.zeros((11, 1), np.float32), None, None)
    answer = decide(Echo(), ask, explore=True, version=4)
    assert answer.version == 4
    assert answer.action.shape == (11,)
    assert (answer.extras["rows"] == 16).all()
    np.testing.assert_allclose(answer.action, x.sum(-1), rtol=1e-6)


@pytest.mark.parametrize("turns", [0, 1, 30, 64, 95, 96, 97, 128])
def test_lanes_that_wait_for_their_turn_cost_next_to_nothing(turns: int) -> None:
    """Echo says how large its batch was."""
    random = np.random.default_rng(turns)
    x, acting = random.normal(size=(128, 3)).astype(np.float32), np.zeros(128, np.bool_)
    acting[random.permutation(128)[:turns]] = True
    ask = Ask({"x": x}, np.zeros(128, np.bool_), np.zeros((128, 1), np.float32), None, None)
    whole = decide(Echo(), ask, explore=True, version=4)
    part = decide(Echo(), replace(ask, acting=acting), explore=True, version=4)
    assert part.version == 4
    assert part.action.shape == (128,)
    assert (part.extras["rows"] == (max(16, -(-turns // 8) * 8) if turns <= 96 else 128)).all()
    np.testing.assert_array_equal(part.action[acting], whole.action[acting])
    assert np.isin(part.action, whole.action).all(), "whoever waits has the action of another"
