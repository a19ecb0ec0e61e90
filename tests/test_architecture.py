"""The direction of imports, the sizes of files and functions, the words: printed, and failing on what should not be."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "shoal"
ORDER = (
    "base", "api", "monitoring", "models", "envs", "buffers", "streams", "algorithms", "checkpoints", "rollout", "evaluation",
    "league", "workers", "program", "launchers", "runs", "population", "federation", "analysis", "testing", "recipes",
    "dashboard", "cli",
)  # fmt: skip
"""A folder imports only from itself and from those before it."""

MAX_FILE, MAX_FUNCTION = 400, 60

DOCS = PACKAGE.parent / "docs"
WORDS = {
    "world": r"worlds?", "mind": r"minds?", "picture": r"pictures?", "judge": r"judg(?:e[ds]?|ing|ements?)",
    "hunger": r"hunger|hungry", "books": r"books", "bury": r"bury|bur(?:ied|ies)", "settle": r"settl(?:e[ds]?|ing)",
    "sitting": r"sittings?", "leave out": r"leav(?:e|es|ing)(?: [^ .,;:]+){0,4} out", "bend": r"bend", "tower": r"towers?",
    "last words": r"last words", "at the table": r"at the table",
}  # fmt: skip
"""Retired: a reader should not have to translate. Word -> how it is found, in prose and as a part of a name."""
ANY_WORD = re.compile(rf"\b(?:{'|'.join(WORDS.values())})\b")
NAMES = {"asked", "noted", "gone", "choices", "forces", "host", "hosts", "booked"}
"""Retired as parts of names; as words of a sentence they are English."""
PROPER = re.compile(r"(?:simple_)?world[-_]comm\w*|WorldComm")
OLD_NAME = "# old name"
"""Ends a line that reads what an older release wrote."""


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
    assert outside <= {"__future__", "abc", "collections", "dataclasses", "typing", "numpy", "gymnasium"}
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


# ---------------------------------------------------------------- cycles


def modules() -> dict[str, Path]:
    """Dotted name -> file."""
    paths = {path.relative_to(PACKAGE.parent).with_suffix(""): path for path in sources()}
    return {".".join(name.parts).removesuffix(".__init__"): path for name, path in paths.items()}


def import_graph() -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports, anywhere in it."""
    known = modules()
    graph: dict[str, set[str]] = {name: set() for name in known}
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text())):
            targets = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                targets = [target if target in known else str(node.module) for target in whole]
            graph[name] |= {target for target in targets if target in known and target != name}
    return graph


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one cycle, the first also last; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def test_no_import_cycles() -> None:
    cycle = cycle_in(import_graph())
    assert not cycle, " <- ".join(cycle)


def test_a_cycle_is_found() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) in (["b", "c", "b"], ["c", "b", "c"])


def test_subfolders_do_not_import_each_other() -> None:
    """Of two subfolders of one folder, at most one imports the other."""
    known, arrows = modules(), {}
    for name, targets in import_graph().items():
        for target in targets:
            here, there = known[name].parent, known[target].parent
            common = next(p for p in [here, *here.parents] if there.is_relative_to(p))
            if common not in (PACKAGE, here, there):
                ends = (here.relative_to(common).parts[0], there.relative_to(common).parts[0])
                arrows.setdefault((common, *ends), []).append(f"{name} imports {target}")
    for common, here, there in sorted(arrows):
        print(f"{common.relative_to(PACKAGE)}: {here} -> {there}")
    both = [
        line for (common, here, there), lines in arrows.items() if (common, there, here) in arrows for line in lines
    ]
    assert not both, "\n".join(both)


# ---------------------------------------------------------------- words


@lru_cache(maxsize=100_000)
def spelled_out(text: str) -> str:
    """Names in parts: `last_words` and `LastWords` as `last words`."""
    text = PROPER.sub("", text).replace("_", " ")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text).lower()


def retired_words(path: Path) -> Iterator[tuple[str, str]]:
    """Word and place of each."""
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        if line.endswith(OLD_NAME) or not ANY_WORD.search(spelled := spelled_out(line)):
            continue
        for word, pattern in WORDS.items():
            yield from ((word, f"{path}:{number}") for _ in re.finditer(rf"\b(?:{pattern})\b", spelled))
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                parts = NAMES & set(spelled_out(token.string).split())
                yield from ((word, f"{path}:{token.start[0]}") for word in parts)


FRONT = PACKAGE.parent
FRONT_PAGES = ("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md")
"""What a newcomer reads first; CHANGELOG names what was renamed."""


@pytest.mark.parametrize(
    "folder", [PACKAGE, DOCS, FRONT / "examples", FRONT], ids=["shoal", "docs", "examples", "front"]
)
def test_words(folder: Path) -> None:
    paths = [path for suffix in ("py", "md", "yaml") for path in sorted(folder.rglob(f"*.{suffix}"))]
    if folder == FRONT:
        paths = [folder / name for name in FRONT_PAGES]
    found = [each for path in paths if path != DOCS / "glossary.md" for each in retired_words(path)]
    counts = Counter(word for word, _ in found)
    print(", ".join(f"{word} {counts[word]}" for word in [*WORDS, *sorted(NAMES)]))
    assert not found, "\n".join(f"{place}: {word}" for word, place in found)


def test_a_retired_word_is_found(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text('class WorldView:\n    """Leave it out."""\n\n    asked = _all_minds("asked, shoal/world-comm")\n')
    assert Counter(word for word, _ in retired_words(bad)) == {"world": 1, "leave out": 1, "mind": 1, "asked": 1}
