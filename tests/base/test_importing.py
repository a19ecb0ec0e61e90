"""Importing without the garbage collector: it comes back, and what was imported is out of its sight."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from shoal.base.importing import importing


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.enable()


def test_the_collector_rests_and_comes_back() -> None:
    with importing():
        assert not gc.isenabled()
        kept = [[number] for number in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() > len(kept)


def test_it_comes_back_after_a_mistake() -> None:
    with pytest.raises(ImportError), importing():
        raise ImportError("no such module")
    assert gc.isenabled()


def test_whoever_had_it_off_keeps_it_off() -> None:
    gc.disable()
    with importing():
        pass
    assert not gc.isenabled()
