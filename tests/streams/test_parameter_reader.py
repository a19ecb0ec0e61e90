"""Which version acts, also when the one that is due is gone."""

from __future__ import annotations

import torch
from torch import nn

from shoal.base.flat import Flat
from shoal.streams.parameter import ParameterReader
from shoal.streams.transports.memory import MemoryMailbox


def world() -> tuple[nn.Linear, Flat, MemoryMailbox]:
    module = nn.Linear(1, 1)
    flat = Flat(module, gradients=False)
    return module, flat, MemoryMailbox(flat.nbytes, 1)


def publish(box: MemoryMailbox, flat: Flat, version: int) -> None:
    block = flat.block.clone()
    block.view(torch.float32)[:] = version
    box.publish(version, block.numpy())


def test_the_version_of_the_round_and_no_other() -> None:
    module, flat, box = world()
    reader = ParameterReader(box, flat)
    publish(box, flat, 0)
    assert not reader.pin(1)
    assert reader.pin(0)
    publish(box, flat, 1)
    assert reader.pin(0)  # held already
    assert module.weight.item() == 0.0


def test_a_version_that_is_gone_is_replaced_by_the_newest() -> None:
    """A trainer died in round 3 and published version 4; an actor that died too, or a policy worker, still plays round 3."""
    module, flat, box = world()
    reader = ParameterReader(box, flat)
    publish(box, flat, 4)
    assert reader.published(3)
    assert reader.pin(3)
    assert (reader.version, module.weight.item()) == (4, 4.0)
    assert reader.pin(4)
    assert not reader.pin(5)
    assert reader.pin(3)
    assert reader.version == 4


def test_whatever_is_newest_where_runs_need_not_be_exact() -> None:
    module, flat, box = world()
    reader = ParameterReader(box, flat, exact=False)
    assert not reader.pin(0)
    publish(box, flat, 3)
    assert reader.pin(0)
    assert module.weight.item() == 3.0
