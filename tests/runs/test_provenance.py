import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from shoal.monitoring.run_folder import RunFolder
from shoal.runs import provenance


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.chdir(folder)
    git("init", "-q")
    (folder / "a.txt").write_text("one\n")
    git("add", "a.txt")
    git("-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "first")
    return folder


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def fake_git(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_collect_names_versions_command_seed_and_machine() -> None:
    found = provenance.collect(["shoal", "train", "x.yaml"], 7, "inline")
    assert found["command"] == ["shoal", "train", "x.yaml"]
    assert found["seed"] == 7
    assert found["launcher"] == "inline"
    assert found["folder"] == os.getcwd()
    assert found["packages"]["torch"] == found["versions"]["torch"]
    assert found["packages"]["pydantic"]
    assert found["machine"]["cpu_instructions"]
    assert found["versions"]["torch"].startswith("2.")
    assert found["versions"]["python"].startswith("3.")
    assert found["machine"]["cpus"] >= 1
    assert found["machine"]["memory_bytes"] > 2**28
    json.dumps(found)


def test_a_clean_repository(repository: Path) -> None:
    found = provenance.describe_code(repository)
    assert found == {
        "commit": git("rev-parse", "HEAD").strip(), "dirty": False, "untracked": [], "diff": "", "diff_cut_off": False,
    }  # fmt: skip


def test_changes_and_new_files_are_seen(repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    (repository / "new.py").write_text("")
    found = provenance.describe_code(repository)
    assert found is not None
    assert found["dirty"]
    assert "+two" in found["diff"]
    assert found["untracked"] == ["new.py"]


def test_a_long_diff_is_cut_off(repository: Path) -> None:
    (repository / "a.txt").write_text("é" * 1_500_000)
    found = provenance.describe_code(repository)
    assert found is not None
    assert found["diff_cut_off"]
    assert 400_000 < len(found["diff"]) <= 1_000_000


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    found = provenance.describe_code(tmp_path)
    assert found is not None
    assert found["commit"] is None
    assert found["diff"] is None


def test_no_repository_and_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance.describe_code(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.describe_code(tmp_path) is None


@pytest.mark.parametrize("script", ["sleep 60", "exec >&-; sleep 60", "sleep 60 & echo x; exit 0", "yes & wait"])
def test_a_git_that_hangs_is_left_behind(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_GIT_SECONDS", 0.3)
    fake_git(tmp_path, script, monkeypatch)
    began = time.monotonic()
    provenance.describe_code(tmp_path)
    assert time.monotonic() - began < 4


def test_earlier_starts_of_a_run_are_kept(repository: Path) -> None:
    folder = RunFolder.create(repository / "runs", "x", "first")
    for seed in (1, 2, 3):
        provenance.write(folder, ["shoal"], seed, "local")
    found = json.loads(folder.provenance.read_text())
    assert found["seed"] == 3
    assert [record["seed"] for record in found["earlier"]] == [1, 2]
    assert found["git"]["commit"]


def test_a_damaged_record_does_not_stop_the_run(repository: Path) -> None:
    folder = RunFolder.create(repository / "runs", "x", "first")
    folder.provenance.write_text("{")
    provenance.write(folder, ["shoal"], 1, "local")
    assert json.loads(folder.provenance.read_text())["earlier"] == [{"damaged": "provenance.json"}]


def test_all_starts_can_be_read(repository: Path) -> None:
    folder = RunFolder.create(repository / "runs", "x", "first")
    assert provenance.read(folder) == []
    for seed in (1, 2):
        provenance.write(folder, ["shoal"], seed, "local")
    assert [record["seed"] for record in provenance.read(folder)] == [1, 2]
    folder.provenance.write_text("{")
    assert provenance.read(folder) == []


def test_shoals_own_code_is_described_where_it_is_elsewhere(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(provenance.__file__).parents[2]
    if not (package / ".git").exists():
        pytest.skip("Shoal is installed, not used from its repository")
    found = provenance.collect(["shoal"], 1, "local")
    own = subprocess.run(["git", "-C", package, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert found["shoal_git"]["commit"] == own.strip() != found["git"]["commit"]
    monkeypatch.chdir(package)
    assert provenance.collect(["shoal"], 1, "local")["shoal_git"] is None, "said once"
