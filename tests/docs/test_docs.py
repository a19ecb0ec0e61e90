"""Every example of the documentation is true: files load, code runs, commands work and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.api.experiment import load_experiment
from shoal.cli import main
from shoal.program.expand import expand
from shoal.recipes import find
from shoal.testing import device
from tests.docs.pages import ROOT, Block, Command, blocks, commands, name_of, pages

assert device.DEVICE.index == 0, "known before the first backward pass, wherever a page uses it"
LANGUAGES = {"yaml", "python", "bash", "console", "text"}
CHECKED = [page for page in pages() if blocks(page)]
LONG = (
    "tasks/cluster.md", "tutorial/cluster.md", "tasks/evaluate.md", "tasks/tune.md", "tasks/watch.md", "tasks/sweep.md",
    "tasks/tournament.md", "tasks/population-training.md", "nouns/buffer.md", "tasks/command-line.md", "tasks/rollout.md",
    "errors.md", "tasks/your-game-in-ten-lines.md",
)  # fmt: skip
"""Pages whose commands take longest: run by make test-slow."""


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in. Modules from the folders of other tests are out of reach, and ours are forgotten."""
    temporary = str(tmp_path_factory.getbasetemp())
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not entry.startswith(temporary)])
    for name in modules_in(temporary):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in modules_in(temporary):
        del sys.modules[name]


def modules_in(folder: str) -> list[str]:
    files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
    return [name for name, file in files.items() if file.startswith(folder)]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if name_of(page).endswith(LONG) else page for page in CHECKED],
    ids=name_of,
)
def test_page(page: Path, place: Path) -> None:
    """All fences of a page, in order, in one folder."""
    for block in blocks(page):
        if block.title:
            (place / block.title).write_text(block.text)
    names = {"__name__": "__main__"}
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{name_of(page)}: a fence of '{block.language}'"
        if block.language == "yaml":
            load(block, place)
        elif block.language == "python" and not block.title:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block.text, name_of(page), "exec"), names)
        elif block.language == "python" and block.title.startswith("test_"):
            run_tests(block, place)
        elif block.language in ("bash", "console"):
            for command in commands(block):
                check(command, place)


def load(block: Block, place: Path) -> None:
    """The experiment and everything it names can be built."""
    path = place / (block.title or "unnamed.yaml")
    path.write_text(block.text)
    expand(load_experiment(path, []))


def run_tests(block: Block, place: Path) -> None:
    """The functions that pytest would call, in a folder whose files they import."""
    names: dict[str, object] = {}
    sys.path.insert(0, str(place))  # the fixture restores it
    exec(compile(block.text, block.title, "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_") and callable(value)]
    assert tests, f"{block.title} has no tests"
    for test in tests:
        test()


# ---------------------------------------------------------------- commands


def check(command: Command, place: Path) -> None:
    """Run it; a command of the repository itself is only looked up."""
    match shlex.split(command.line):
        case ["shoal", *words]:
            code, printed = run_shoal(words)
            if command.output is None:
                assert code == 0, f"{command.line}: {printed}"
            else:
                assert printed_as(command.output, printed), f"{command.line} prints\n{printed}\nnot\n{command.output}"
                assert (code != 0) == ("shoal: " in command.output), f"{command.line}: exit code {code}"
        case ["make", target, *settings]:
            assert all(f"$({setting.partition('=')[0]})" in (ROOT / "Makefile").read_text() for setting in settings)
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command.line
        case ["sha256sum", _]:
            done = subprocess.run(command.line, shell=True, cwd=place, capture_output=True, text=True, check=True)
            sums = [line.split()[0] for line in done.stdout.splitlines()]
            assert len(sums) > 1
            assert len(set(sums)) == 1, done.stdout
        case words:
            assert words == ["source", ".venv/bin/activate"], f"no way to check: {command.line}"


def run_shoal(words: list[str]) -> tuple[int, str]:
    """The real command in this process: exit code, and both outputs as one. Ray gets a process: it leaves threads behind."""
    if "ray" in words and words[0] != "plan":
        done = subprocess.run([sys.executable, "-m", "shoal.cli", *words], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr
    out, argv = io.StringIO(), sys.argv
    sys.argv = ["shoal", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main()
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    finally:
        sys.argv = argv
    return 0, out.getvalue()


def printed_as(shown: str, printed: str) -> bool:
    """Whether the page tells the truth; `...` is anything, of any length. A slow machine also says what it is busy with."""
    pattern = re.escape(shown.strip()).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, re.sub(r"(?m)^checking \S+ \.\.\.\n", "", printed).strip(), re.DOTALL) is not None


def test_printed_as() -> None:
    assert printed_as("a\n...\nd e...f\n", "a\nb\nc\nd e 7 f\n")
    assert not printed_as("a\n...\nd\n", "a\nb\ne\n")
    assert printed_as("ok a\n", "checking game.py:Game ...\nok a\n")
    assert not printed_as("ok a\n", "something else ...\nok a\n")


# ---------------------------------------------------------------- README


def test_readme_shows_recipes_as_they_are() -> None:
    files = [block.text for block in blocks(ROOT / "README.md") if block.language == "yaml"]
    assert files == [find("cartpole").read_text(), find("spread").read_text()]


def test_readme_is_short_and_its_figures_are_in_the_results() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 125, "two screens and a half"
    results = (ROOT / "docs/results.md").read_text()
    figures = re.findall(r"\b\d{1,3},\d{3}\b", text.partition("## Beside others")[2])
    assert len(figures) > 3
    assert not [figure for figure in figures if figure not in results]
