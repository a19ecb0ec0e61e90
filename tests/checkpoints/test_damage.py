"""Bits that flip and files that are cut off: whatever file of a checkpoint or tag it is, nobody takes it for what was saved."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore


def read_all(store: CheckpointStore) -> None:
    """All that a reader can ask for."""
    checkpoint = store.load("mine")
    checkpoint.extra("replay.safetensors")
    store.load(checkpoint.version)


def flipped(raw: bytes, chance: random.Random) -> bytes:
    changed = bytearray(raw)
    changed[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(raw: bytes, chance: random.Random) -> bytes:
    return raw[: chance.randrange(len(raw))]


def damage(folder: Path, times: int) -> Counter[tuple[str, str]]:
    """Damage one file at a time, `times` times, and count what was found, by kind of damage and file."""
    store = CheckpointStore(folder)
    weights = torch.randn(20, 10, generator=torch.Generator().manual_seed(1))
    meta = {"steps": 1234, "loss": 1e-05, "exact": 0.1 + 0.2, "name": "é"}
    path = store.save(3, {"weight": weights}, meta, extras={"replay.safetensors": {"rows": torch.arange(300.0)}})
    store.tag("mine", 3)
    files = [*sorted(path.iterdir()), folder / "tags/mine"]
    chance, found = random.Random(times), Counter[tuple[str, str]]()
    kinds: list[Callable[[bytes, random.Random], bytes]] = [flipped, cut]
    for number in range(times):
        file, change = files[number % len(files)], kinds[number // len(files) % 2]
        whole = file.read_bytes()
        file.write_bytes(change(whole, chance))
        with pytest.raises(InputError, match=rf"damaged: .*{file.name}"):
            read_all(store)
        found[change.__name__, file.name] += 1
        file.write_bytes(whole)
    read_all(store)
    return found


def test_damage_is_found(tmp_path: Path) -> None:
    found = damage(tmp_path, 400)
    names = {"manifest.json", "state.safetensors", "replay.safetensors", "mine"}
    assert found == {(kind, name): 50 for kind in ("flipped", "cut") for name in names}


@pytest.mark.slow
def test_damage_is_found_2_000_times(tmp_path: Path) -> None:
    found = damage(tmp_path, 2000)
    print(f"{sum(found.values()):,} of 2,000 damages found: {dict(found)}")
    assert found.total() == 2000


def test_the_list_of_checkpoints_finds_it_too(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    path = store.save(1, {"w": torch.ones(3)}, {}, extras={"replay.safetensors": {"rows": torch.ones(9)}})
    assert store.inspect(1)[1] is None
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1])
        assert file.name in (store.inspect(1)[1] or "")
        file.write_bytes(whole)
