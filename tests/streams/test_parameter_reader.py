"""Which version acts, also when the one that is due is gone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import shoal
from shoal.api.experiment import Experiment
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


class Counted(MemoryMailbox):
    """Counts what was really copied out of it."""

    fetched = 0

    def read(self, version: int, into: Any) -> bool:
        found = super().read(version, into)
        self.fetched += found
        return found


@pytest.mark.parametrize("exact", [True, False])
def test_a_version_that_is_held_is_not_fetched_again(exact: bool) -> None:
    module = nn.Linear(1, 1)
    flat = Flat(module, gradients=False)
    box = Counted(flat.nbytes, 2)
    reader = ParameterReader(box, flat, exact=exact)
    for version in range(3):
        publish(box, flat, version)
        for _ in range(4):
            assert reader.pin(version)
            assert reader.latest() == version
    assert box.fetched == 3
    publish(box, flat, 5)
    for _ in range(4):
        assert reader.pin(4), "version 4 never came, so the newest will do"
    assert box.fetched == 4


@pytest.mark.parametrize("placement", [{"max_lag": 0}, {"max_lag": 2}, {"max_lag": 1, "exact": False}])
def test_actors_of_a_run_fetch_every_version_at_most_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placement: dict[str, Any]
) -> None:
    """Two actors with two Envs each, one policy copy for each Env; nobody copies the same version twice into the same memory."""
    copied: Counter[tuple[int, int]] = Counter()
    read = MemoryMailbox.read

    def counted(box: MemoryMailbox, version: int, into: Any) -> bool:
        found = read(box, version, into)
        copied[into.__array_interface__["data"][0], version] += found
        return found

    monkeypatch.setattr(MemoryMailbox, "read", counted)
    tree = {
        "env": {"id": "CartPole-v1", "num_envs": 8}, "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 64},
        "placement": {"actors": 2, "ring": 2, **placement}, "stop": {"updates": 6}, "name": "fetch",
    }  # fmt: skip
    shoal.train(Experiment.parse(tree), root=tmp_path, on="inline", quiet=True)
    assert len({place for place, _ in copied}) >= 4
    assert sum(copied.values()) > 8
    assert max(copied.values()) == 1
