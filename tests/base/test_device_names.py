"""Names of devices: what is here is found and dealt in turn, what is not is one line."""

from __future__ import annotations

import pytest
import torch

from shoal.base import device
from shoal.base.device import find_device
from shoal.base.errors import InputError
from shoal.base.transfer import to_cpu, to_device
from shoal.testing.device import DEVICE, counted


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "devices_here", lambda: ["cpu", "cuda:0", "cuda:1"])


@pytest.mark.usefixtures("two")
def test_a_kind_is_dealt_in_turn_and_an_index_is_meant() -> None:
    dealt = [str(find_device("cuda", number, key="k")) for number in range(3)]
    assert dealt == ["cuda:0", "cuda:1", "cuda:0"]
    assert [str(find_device("cuda:1", number, key="k")) for number in range(2)] == ["cuda:1", "cuda:1"]
    assert find_device("cpu", 5, key="k") == torch.device("cpu")


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("name", ["cuda:2", "mps", "meta", "", "nonsense"])
def test_what_is_not_here_is_told_with_what_is(name: str) -> None:
    with pytest.raises(InputError) as caught:
        find_device(name, key="placement.device")
    said = f"placement.device = '{name}': there is no such device here; choose from: cpu, cuda:0, cuda:1"
    assert str(caught.value) == said


def test_a_module_brings_its_device_along() -> None:
    assert find_device("shoal.testing.device:pretend", 3, key="k") == DEVICE
    with pytest.raises(InputError, match="name a module that can be imported"):
        find_device("no.such.module:pretend", key="k")


def test_a_tree_goes_over_in_one_copy_for_each_dtype() -> None:
    x = torch.arange(6.0)
    tree = {
        "a": x.view(2, 3),
        "b": (x[1:3], None),
        "flag": torch.tensor([True]),
        "number": torch.tensor(7),
        "t": x.view(2, 3).t(),
    }
    with counted() as there:
        sent = to_device(tree, DEVICE)
    assert (there.copies, there.synchronising) == (3, 0)
    assert there.to_device == 4 * (6 + 2 + 6) + 1 + 8
    assert sent["b"][0].device == DEVICE
    x.zero_()  # the copy is on its way, and nobody's business
    with counted() as back:
        got = to_cpu(sent)
    assert back.copies == 3
    assert got["a"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert got["t"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert (got["b"][0].tolist(), got["b"][1], got["flag"].tolist(), got["number"].item()) == (
        [1.0, 2.0],
        None,
        [True],
        7,
    )
