"""The direction of imports, and the sizes of files and functions: printed, and failing on a wrong arrow or a runaway size."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "shoal"
ORDER = (
    "base", "api", "monitoring", "models", "envs", "buffers", "streams", "algorithms", "checkpoints", "rollout", "evaluation",
    "workers", "program", "launchers", "runs", "population", "league", "federation", "analysis", "testing", "recipes",
    "dashboard", "cli",
)  # fmt: skip
"""A folder imports only from itself and from those before it."""

MAX_FILE, MAX_FUNCTION = 400, 60


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def folder(path: Path) -> str | None:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


def wrong_arrows(path: Path) -> list[str]:
    home = folder(path)
    if home is None:
        return []
    targets = [name.split(".")[1] for name in imported(path) if name.startswith("shoal.")]
    return [f"{path.relative_to(PACKAGE)} imports shoal.{t}" for t in targets if ORDER.index(t) > ORDER.index(home)]


def test_imports_point_one_way() -> None:
    arrows: dict[str, set[str]] = {}
    wrong = []
    for path in sources():
        home = folder(path) or "shoal"
        arrows.setdefault(home, set()).update(n.split(".")[1] for n in imported(path) if n.startswith("shoal."))
        wrong += wrong_arrows(path)
    for home in ORDER:
        if home in arrows:
            print(f"{home:12} -> {', '.join(sorted(arrows[home] - {home}, key=ORDER.index)) or '-'}")
    assert not wrong, "\n".join(wrong)


def test_a_wrong_arrow_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "base").mkdir()
    bad = tmp_path / "base" / "bad.py"
    bad.write_text("from shoal.workers.actor import ActorWorker\n")
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    assert wrong_arrows(bad) == ["base/bad.py imports shoal.workers"]


def test_env_contract_needs_numpy_alone() -> None:
    outside = {name.split(".")[0] for name in imported(PACKAGE / "api" / "env.py")}
    assert outside <= {"__future__", "abc", "dataclasses", "typing", "numpy", "gymnasium"}
    text = (PACKAGE / "api" / "env.py").read_text()
    assert "if TYPE_CHECKING:\n    from gymnasium" in text


def test_sizes() -> None:
    files = sorted(((len(p.read_text().splitlines()), str(p.relative_to(PACKAGE))) for p in sources()), reverse=True)
    functions = sorted(
        (
            (node.end_lineno - node.lineno + 1, f"{path.relative_to(PACKAGE)}:{node.name}")
            for path in sources()
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef) and node.end_lineno
        ),
        reverse=True,
    )
    print(
        f"{len(files)} files, {sum(n for n, _ in files)} lines; median function {functions[len(functions) // 2][0]} lines"
    )
    print("longest files:    ", ", ".join(f"{name} {n}" for n, name in files[:5]))
    print("longest functions:", ", ".join(f"{name} {n}" for n, name in functions[:5]))
    assert files[0][0] <= MAX_FILE, files[0]
    assert functions[0][0] <= MAX_FUNCTION, functions[0]


def test_no_pickle() -> None:
    for path in sources():
        banned = {"pickle", "cloudpickle", "dill", "shelve", "marshal"} & {n.split(".")[0] for n in imported(path)}
        assert not banned, f"{path} imports {banned}"
        assert not re.search(r"(?<!safetensors\.)torch\.load\(", path.read_text()), f"{path} calls torch.load"
