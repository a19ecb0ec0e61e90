"""`make release`: wheel, sdist and site, built and checked; nothing is uploaded.

Versions agree; both archives hold what users need; what is installed from the wheel names every recipe and trains one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def main() -> None:
    """Build, then check."""
    version = agreed_version()
    shutil.rmtree(DIST, ignore_errors=True)
    build("wheel")
    build("sdist")
    wheel, sdist = DIST / f"shoal-{version}-py3-none-any.whl", DIST / f"shoal-{version}.tar.gz"
    check_contents(set(zipfile.ZipFile(wheel).namelist()), wheel)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    check_contents(names, sdist)
    check_installed(wheel)
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"], cwd=ROOT, check=True)
    for path in (wheel, sdist, ROOT / "site"):
        print(f"ready: {path.relative_to(ROOT)}")


def agreed_version() -> str:
    """The one of all places that name it."""
    named = {
        "pyproject.toml": tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"],
        "shoal/__init__.py": found(r'__version__ = "([^"]+)"', (ROOT / "shoal/__init__.py").read_text(), "__init__.py"),
    }
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    if sections and sections[0].startswith("Unreleased"):
        unreleased = sections.pop(0).partition("\n")[2]
        if unreleased.strip():
            print("note: CHANGELOG.md has lines under 'Unreleased': cut them before you tag")
    if sections:
        named["CHANGELOG.md"] = found(r"^\[?v?([^\s\]]+)", sections[0], "CHANGELOG.md")
    if len(set(named.values())) != 1:
        sys.exit(f"versions differ: {', '.join(f'{path} {version}' for path, version in named.items())}")
    return named["pyproject.toml"]


def found(pattern: str, text: str, where: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        sys.exit(f"{where} names no version")
    return match[1]


def build(kind: str) -> None:
    """By the backend itself, in this environment: no network is needed."""
    code = f"from setuptools import build_meta; build_meta.build_{kind}({str(DIST)!r})"
    DIST.mkdir(exist_ok=True)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the {kind} cannot be built:\n{done.stdout}{done.stderr}")
    shutil.rmtree(ROOT / "build", ignore_errors=True)


def check_contents(names: set[str], archive: Path) -> None:
    """Every file of the package that git knows is in it."""
    listed = subprocess.run(["git", "ls-files", "shoal"], cwd=ROOT, capture_output=True, text=True, check=True)
    missing = [name for name in listed.stdout.splitlines() if name not in names]
    if missing:
        sys.exit(f"{archive.name} lacks {', '.join(missing)}")


def check_installed(wheel: Path) -> None:
    """Unpacked elsewhere, it is imported from there, lists its recipes and trains."""
    recipes = [path.stem for path in (ROOT / "shoal/recipes").glob("*.yaml")]
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(Path(folder, "package"))
        clean = {**os.environ, "PYTHONPATH": str(Path(folder, "package"))}
        code = f"import shoal, sys; sys.exit(not shoal.__file__.startswith({folder!r}))"
        for words, wanted in (
            (["-c", code], []),
            (["-m", "shoal.cli", "list"], recipes),
            (["-m", "shoal.cli", "train", "cartpole", "stop.updates=2", "--on", "inline"], []),
        ):
            done = subprocess.run([sys.executable, *words], cwd=folder, env=clean, capture_output=True, text=True)
            if done.returncode or not set(wanted) <= set(done.stdout.split()):
                sys.exit(f"what {wheel.name} installs does not work: {' '.join(words)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
