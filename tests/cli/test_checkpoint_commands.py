"""`shoal checkpoints` and `shoal tag`, and what a damaged checkpoint means for those who go on."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from shoal.checkpoints.store import CheckpointStore
from tests.cli.test_cli import QUICK, refused, shoal


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run cartpole/a, saved at 2, 4 and 5."""
    folder = tmp_path_factory.mktemp("checkpoints")
    words = [*QUICK, "checkpoint.every=2 updates", "stop.updates=5", "log.tensorboard=false"]
    assert shoal("train", "cartpole", "--trial", "a", "--on", "inline", *words, cwd=folder).returncode == 0
    return folder


@pytest.fixture
def place(saved: Path, tmp_path: Path) -> Path:
    """The same, to be damaged."""
    shutil.copytree(saved / "runs", tmp_path / "runs")
    return tmp_path


def store(place: Path) -> CheckpointStore:
    return CheckpointStore(place / "runs/cartpole/a/checkpoints")


def damage(place: Path, version: int, name: str = "state.safetensors") -> None:
    path = store(place).path(version) / name
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 16
    path.write_bytes(raw)


def said(*words: str, cwd: Path) -> str:
    done = shoal(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_list(place: Path) -> None:
    said("tag", "cartpole/a", "early", "--checkpoint", "2", cwd=place)
    damage(place, 4)
    head, *lines = said("checkpoints", "cartpole/a", cwd=place).splitlines()
    assert head.split() == ["version", "steps", "saved", "size", "tags", "state"]
    assert [line.split()[0] for line in lines] == ["2", "4", "5"]
    assert "early  whole" in lines[0]
    assert "damaged: state.safetensors was changed since it was written" in lines[1]
    assert lines[2].endswith(" whole")
    document = json.loads(said("checkpoints", "cartpole/a", "--json", cwd=place))
    rows = document["checkpoints"]
    assert [(row["version"], row["tags"]) for row in rows] == [(2, ["early"]), (4, []), (5, [])]
    assert [row["damage"] is None for row in rows] == [True, False, True]
    assert rows[0]["steps"] < rows[1]["steps"] < rows[2]["steps"]
    assert rows[0]["bytes"] == sum(path.stat().st_size for path in store(place).path(2).iterdir())
    assert document["damaged_tags"] == {}


def test_the_list_names_every_damage(place: Path) -> None:
    damage(place, 2, "manifest.json")
    (store(place).path(4) / "state.safetensors").unlink()
    said("tag", "cartpole/a", "mine", cwd=place)
    (place / "runs/cartpole/a/checkpoints/tags/mine").write_bytes(b"")
    out = said("checkpoints", "cartpole/a", cwd=place)
    assert "damaged: manifest.json was changed or torn" in out
    assert "damaged: state.safetensors cannot be read (No such file or directory)" in out
    assert "the tag 'mine' is damaged: tags/mine was changed or torn" in out


def test_a_run_without_checkpoints(place: Path) -> None:
    shutil.rmtree(place / "runs/cartpole/a/checkpoints")
    assert said("checkpoints", "cartpole/a", cwd=place) == "cartpole/a has no checkpoint yet\n"
    assert "there is no checkpoint" in refused("tag", "cartpole/a", "mine", cwd=place)


def test_tag_and_evaluate_and_remove(place: Path) -> None:
    assert said("tag", "cartpole/a", "mine", cwd=place).startswith("cartpole/a: 'mine' is version 5; look: ")
    assert "'best' is version 4" in said("tag", "cartpole/a", "best", "--checkpoint", "4", cwd=place)
    assert "'copy' is version 4" in said("tag", "cartpole/a", "copy", "--checkpoint", "best", cwd=place)
    played = json.loads(said("evaluate", "cartpole/a", "--episodes", "2", "--checkpoint", "best", "--json", cwd=place))
    assert played["version"] == 4
    assert "no checkpoint is 'best' any more" in said("tag", "cartpole/a", "best", "--remove", cwd=place)
    assert store(place).tags() == {"mine": 5, "copy": 4}
    assert "did you mean 'mine'?" in refused("evaluate", "cartpole/a", "--checkpoint", "mien", cwd=place)
    assert "there is no tag 'best'; " in refused("tag", "cartpole/a", "best", "--remove", cwd=place)
    assert "omit --checkpoint" in refused("tag", "cartpole/a", "mine", "--remove", "--checkpoint", "4", cwd=place)
    assert "is always that of the newest whole" in refused("tag", "cartpole/a", "latest", cwd=place)
    assert "would be mistaken for a version" in refused("tag", "cartpole/a", "7", cwd=place)


def test_a_damaged_newest_is_not_passed_over_in_silence(place: Path) -> None:
    damage(place, 5)
    for words in (["tag", "cartpole/a", "mine"], ["evaluate", "cartpole/a"]):
        assert re.search(r"checkpoint 5 of .* is damaged \(state.*: try --checkpoint 4", refused(*words, cwd=place))
    assert store(place).tags() == {}


def test_one_that_goes_while_we_look_is_left_out(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = CheckpointStore.inspect

    def remove_after(self: CheckpointStore, version: int) -> object:
        found = real(self, version)
        if version == 4:
            shutil.rmtree(self.path(4))
        return found

    monkeypatch.setattr(CheckpointStore, "inspect", remove_after)
    lines = said("checkpoints", "cartpole/a", cwd=place).splitlines()
    assert [line.split()[0] for line in lines] == ["version", "2", "5"]


def test_a_damaged_newest_is_named_and_the_one_before_goes_on(place: Path) -> None:
    said("tag", "cartpole/a", "mine", cwd=place)
    damage(place, 5)
    words = ["train", "cartpole", "--trial", "a", "--resume", "--on", "inline", "stop.updates=6"]
    out = said(*words, cwd=place)
    assert "checkpoint 5 is damaged and was passed over: state.safetensors was changed" in out
    assert "the tag 'mine' is gone: its checkpoint was newer than 4, where the run goes on" in out
    events = [json.loads(line) for line in (place / "runs/cartpole/a/events.jsonl").read_text().splitlines()]
    assert [event["version"] for event in events if event["kind"] == "start"] == [0, 4]
    assert (store(place).versions(), store(place).tags()) == ([2, 4, 6], {})


def test_none_whole_refuses_to_start(place: Path) -> None:
    for version in (2, 4, 5):
        damage(place, version)
    before = (place / "runs/cartpole/a/metrics.jsonl").read_bytes()
    line = refused("train", "cartpole", "--trial", "a", "--resume", "--on", "inline", "stop.updates=6", cwd=place)
    assert "is whole: restore one or train anew (5: state.safetensors was changed" in line
    assert store(place).versions() == [2, 4, 5], "somebody may still restore them"
    assert (place / "runs/cartpole/a/metrics.jsonl").read_bytes() == before
