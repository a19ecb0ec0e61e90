"""Names for checkpoints, and who keeps one from being removed."""

import logging
import os
import signal
import time
from pathlib import Path

import pytest
import torch

from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore, parse_which


def filled(folder: Path, *versions: int, keep: int = 10) -> CheckpointStore:
    store = CheckpointStore(folder, keep)
    for version in versions:
        store.save(version, {"version": torch.tensor(version)}, {"steps": version})
    return store


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_a_tag_is_a_name_for_a_version(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2, 3)
    assert store.tags() == {}
    store.tag("best", 1)
    store.tag("mine", 2)
    assert CheckpointStore(tmp_path).tags() == {"best": 1, "mine": 2}
    assert (store.load("best").version, store.load("mine").version, store.load("latest").version) == (1, 2, 3)
    store.tag("best", 3)
    assert (store.tags(), store.load("best").version) == ({"best": 3, "mine": 2}, 3)
    store.untag("mine")
    assert store.tags() == {"best": 3}
    assert sorted(path.name for path in (tmp_path / "tags").iterdir()) == ["best"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("latest", "always that of the newest whole checkpoint"),
        ("12", "would be mistaken for a version"),
        ("../best", "cannot name a folder"),
        (".best", "cannot name a folder"),
        ("", "cannot name a folder"),
    ],
)
def test_names_that_are_refused(tmp_path: Path, name: str, said: str) -> None:
    store = filled(tmp_path, 1)
    for work in (lambda: store.tag(name, 1), lambda: store.untag(name)):
        with pytest.raises(InputError, match=said):
            work()
    assert not (tmp_path / "tags").exists()


def test_what_cannot_be_tagged(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2)
    with pytest.raises(InputError, match="there is no checkpoint 7 .*choose from: latest, 1, 2"):
        store.tag("best", 7)
    (tmp_path / "0000000002/manifest.json").write_bytes(b"{}")
    with pytest.raises(InputError, match="checkpoint 2 is damaged.*choose from: latest, 1$"):
        store.tag("best", 2)
    assert store.tags() == {}


def test_a_tag_that_is_not_there(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    store.tag("best", 1)
    with pytest.raises(
        InputError, match=r"no tag 'bets' in .*; did you mean 'best'\? \(choose from: latest, best, 1\)"
    ):
        store.load("bets")
    with pytest.raises(InputError, match=r"no tag 'bets'; did you mean 'best'\?"):
        store.untag("bets")
    assert parse_which("best", [1], store.tags()) == "best"
    with pytest.raises(
        InputError, match=r"'bets' is no checkpoint; did you mean 'best'\? \(choose from: latest, best, 1\)"
    ):
        parse_which("bets", [1], store.tags())


def test_a_tagged_one_is_kept_and_does_not_count(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2, keep=2)
    store.tag("best", 1)
    for version in (3, 4, 5):
        store.save(version, {}, {})
    assert store.versions() == [1, 4, 5]
    store.untag("best")
    store.save(6, {}, {})
    assert store.versions() == [5, 6]


def test_a_damaged_tag_is_named_and_nothing_is_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = filled(tmp_path, 1, 2, keep=1)
    store.tag("best", 2)
    file = tmp_path / "tags/best"
    file.write_bytes(file.read_bytes().replace(b'"version": 2', b'"version": 1'))
    assert (store.tags(), list(store.damaged_tags())) == ({}, ["best"])
    with pytest.raises(InputError, match=r"the tag 'best' is damaged: .*tags/best was changed or torn.*set it anew"):
        store.load("best")
    with caplog.at_level(logging.WARNING, "shoal"):
        store.save(3, {}, {})
    assert "tags/best was changed or torn since it was written: no checkpoint is removed until" in caplog.text
    assert store.versions() == [2, 3]
    store.tag("best", 3)
    store.save(4, {}, {})
    assert store.versions() == [3, 4]


def test_a_renamed_tag_is_found(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    store.tag("best", 1)
    os.rename(tmp_path / "tags/best", tmp_path / "tags/mine")
    with pytest.raises(InputError, match="tags/mine is that of 'best': the file was renamed"):
        store.load("mine")


def test_what_a_dead_process_left_among_the_tags_is_removed(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    store.tag("best", 1)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    (tmp_path / f"tags/.best.{child}.tmp").write_bytes(b"half")
    (tmp_path / f"tags/.best.{os.getppid()}.tmp").write_bytes(b"half")
    assert CheckpointStore(tmp_path).tags() == {"best": 1}
    assert hidden(tmp_path / "tags") == [f".best.{os.getppid()}.tmp"]


def test_going_back_takes_the_tags_of_what_was_newer(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2, 3)
    store.tag("early", 1)
    store.tag("best", 3)
    assert store.drop_newer(2) == ["best"]
    assert (store.versions(), store.tags()) == ([1, 2], {"early": 1})


# ---------------------------------------------------------------- who reads


def test_one_that_is_held_is_left_for_the_next_time(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2, keep=1)
    with store.hold(2):
        store.save(3, {}, {})
        assert store.versions() == [2, 3]
        with store.hold(2):
            assert store.load(2).version == 2
        store.save(4, {}, {})
        assert store.versions() == [2, 4]
    store.save(5, {}, {})
    assert store.versions() == [5]


def test_one_that_another_process_holds(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, keep=1)
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        with CheckpointStore(tmp_path).hold(1):
            os.write(told, b"!")
            time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    store.save(2, {}, {})
    assert store.versions() == [1, 2]
    os.kill(child, signal.SIGKILL)  # the kernel lets go
    os.waitpid(child, 0)
    store.save(3, {}, {})
    assert store.versions() == [3]
    os.close(ready)
    os.close(told)


def test_one_that_is_replaced_while_it_is_read(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    with store.hold(1) as held:
        before = (tmp_path / "0000000001/manifest.json").read_bytes()
        store.save(1, {}, {"other": True})
        assert held.manifest.read() == before
        with held.open("state.safetensors") as file:
            assert len(file.read()) > 0
        assert len(hidden(tmp_path)) == 1
    assert store.load(1).meta == {"other": True}
    store.save(2, {}, {})
    assert hidden(tmp_path) == []


def test_holding_what_is_not_there(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    with pytest.raises(InputError, match="there is no checkpoint 2"), store.hold(2):
        pass


def test_a_tag_given_in_the_last_moment_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process tags between the look at the tags and the removal."""
    store = filled(tmp_path, 1, 2, keep=1)
    real = store._untagged
    looks = []

    def tag_after_the_first_look() -> list[int]:
        found = real()
        if not looks:
            CheckpointStore(tmp_path).tag("best", 2)
        looks.append(found)
        return found

    monkeypatch.setattr(store, "_untagged", tag_after_the_first_look)
    store.save(3, {}, {})
    assert 2 in looks[0]
    assert store.versions() == [2, 3]
    assert store.load("best").version == 2
