"""Durations, names, files, tables, trees, layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shoal.base.arrays import Layout
from shoal.base.duration import format_duration, parse_duration
from shoal.base.errors import InputError
from shoal.base.files import check_name, write_atomic
from shoal.base.table import Table, from_here, import_target
from shoal.base.tree import tree_leaves, tree_map


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("1.5h", 5400), ("3d", 259200), (12, 12), (0.5, 0.5)]
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m5", "5 minutes", None, True, [1]])
def test_bad_durations(text: object) -> None:
    with pytest.raises(ValueError, match="30s"):
        parse_duration(text)


def test_durations_are_shown_in_two_units() -> None:
    assert [format_duration(s) for s in (0.4, 59, 61, 3725, 90000)] == ["0s", "59s", "1m 01s", "1h 02m", "1d 1h"]


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "-x", "a b", "x" * 101, "a\n", "ä"])
def test_names_stay_in_their_folder(name: str) -> None:
    with pytest.raises(InputError, match="--trial"):
        check_name("--trial", name)


def test_good_names() -> None:
    assert check_name("--trial", "run-1_b.2") == "run-1_b.2"


def test_atomic_write_leaves_no_litter(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", "one")
    write_atomic(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_text() == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_table() -> None:
    table = Table("model", {"path": "pathlib:Path"})
    assert table.load("path") is Path
    assert table.load("collections:OrderedDict").__name__ == "OrderedDict"
    with pytest.raises(InputError, match="model.name = 'pahth' is not known; did you mean 'path'"):
        table.load("pahth")


def test_own_files_are_those_of_the_current_folder_or_of_where_a_run_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "seen.py").write_text("class Thing:\n    size = 3\n")
    monkeypatch.chdir(tmp_path)
    with from_here():
        monkeypatch.chdir(tmp_path / "away")
        assert import_target("seen.py:Thing", key="model.name").size == 3
    with pytest.raises(InputError, match="there is no file 'seen.py'"):
        import_target("seen.py:Thing", key="model.name")


def test_own_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    (tmp_path / "beside_mine.py").write_text("SIZE = 3\n")
    file.write_text("from beside_mine import SIZE\nclass Thing:\n    size = SIZE\n")
    assert import_target(f"{file}:Thing", key="model.name").size == 3
    with pytest.raises(InputError, match=r"has no 'Think'; did you mean 'Thing'"):
        import_target(f"{file}:Think", key="model.name")
    with pytest.raises(InputError, match="there is no file"):
        import_target(f"{tmp_path}/none.py:Thing", key="model.name")
    with pytest.raises(InputError, match="there is no module 'nowhere'"):
        import_target("nowhere.at_all:X", key="model.name")
    with pytest.raises(InputError, match="module:Name"):
        import_target("nocolon", key="model.name")


def test_a_missing_dependency_is_named(tmp_path: Path) -> None:
    file = tmp_path / "needs.py"
    file.write_text("import package_that_is_missing\n")
    with pytest.raises(InputError, match="package_that_is_missing"):
        import_target(f"{file}:X", key="env.id")


def test_trees() -> None:
    tree = {"a": (1, None, {"b": 2}), "c": 3}
    assert tree_map(lambda x, y: x + y, tree, tree) == {"a": (2, None, {"b": 4}), "c": 6}
    assert list(tree_leaves(tree)) == [("a/0", 1), ("a/2/b", 2), ("c", 3)]


def test_layout() -> None:
    example = {"x": np.zeros((2, 3), np.float32), "y": (np.zeros(4, np.uint8), None)}
    layout = Layout.of(example)
    assert layout.nbytes == 28
    made = layout.allocate()
    assert made["x"].shape == (2, 3)
    assert made["y"][0].dtype == np.uint8
    assert made["y"][1] is None
