"""What `make release` refuses."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import shoal
from tests.docs.pages import ROOT


@pytest.fixture
def release() -> Any:
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools/release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def a_project(folder: Path, *, code: str, changelog: str) -> None:
    (folder / "shoal").mkdir()
    (folder / "shoal/__init__.py").write_text(f'__version__ = "{code}"\n')
    (folder / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {changelog}\n")


def test_versions_agree_here(release: Any) -> None:
    assert release.agreed_version() == shoal.__version__


@pytest.mark.parametrize(
    ("code", "changelog", "differs"),
    [
        ("0.2.0", "0.2.0 - 2026-11-18", False),
        ("0.2.0", "[0.2.0]", False),
        ("0.2.0", "Unreleased", False),
        ("0.2.0", "Unreleased\n\n### Added\n\n- a thing", False),
        ("0.2.0", "Unreleased\n\n## 0.2.0 - 2026-11-18\n\n### Added\n\n- a thing", False),
        ("0.2.0", "Unreleased\n\n- a thing\n\n## 0.1.0", True),
        ("0.1.0", "0.2.0", True),
        ("0.2.0", "0.1.0", True),
    ],
)
def test_versions_that_differ_are_found(
    release: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, changelog: str, differs: bool
) -> None:
    a_project(tmp_path, code=code, changelog=changelog)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    if not differs:
        assert release.agreed_version() == "0.2.0"
        return
    with pytest.raises(SystemExit, match="versions differ"):
        release.agreed_version()


def test_a_file_that_is_left_behind_is_found(release: Any) -> None:
    with pytest.raises(SystemExit, match=r"a\.whl lacks .*shoal/recipes/cartpole\.yaml"):
        release.check_contents({"shoal/__init__.py"}, Path("a.whl"))


@pytest.mark.parametrize(("lines", "told"), [("", False), ("\n### Added\n\n- a thing\n", True)])
def test_lines_that_are_not_cut_yet_are_told(
    release: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: str,
    told: bool,
) -> None:
    a_project(tmp_path, code="0.2.0", changelog=f"Unreleased\n{lines}\n## 0.2.0 - 2026-11-18")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    assert release.agreed_version() == "0.2.0"
    assert ("cut them before you tag" in capsys.readouterr().out) == told
