"""Where a run came from: versions, the code's commit and changes, the command, the seed, the machine.

Nothing here may stop a run or hold it up: what cannot be found out is None.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import selectors
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from shoal.base.files import read_small, write_atomic
from shoal.monitoring.run_folder import RunFolder, wall_time

_PACKAGES = ("shoal", "torch", "numpy", "gymnasium")
_LIMIT = 1_000_000
_GIT_SECONDS = 5.0


def collect(command: list[str], seed: int, launcher: str, here: Path | None = None) -> dict[str, Any]:
    """Everything needed to ask, years later, what this run was, and to start it again. `here`: where it was started."""
    here = here or Path.cwd()
    return {
        "started": wall_time(),
        "command": command,
        "folder": str(here),
        "launcher": launcher,
        "seed": seed,
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "packages": _packages(),
        "git": describe_code(here),
        "shoal_git": _describe_own_code(here),
        "machine": {
            "host": platform.node(),
            "system": platform.platform(),
            "cpus": os.cpu_count(),
            "cpu_model": _cpu_model(),
            "cpu_instructions": _instructions(),
            "memory_bytes": _memory(),
        },
    }


def write(folder: RunFolder, command: list[str], seed: int, launcher: str, here: Path | None = None) -> None:
    """Keep what `collect` finds now; what an earlier start of the run found moves to `earlier`, oldest first."""
    record = collect(command, seed, launcher, here)
    if folder.provenance.exists():
        record["earlier"] = _earlier(folder.provenance, record["git"])
    write_atomic(folder.provenance, json.dumps(record, indent=2) + "\n")


def read(folder: RunFolder) -> list[dict[str, Any]]:
    """The records of all starts of a run, oldest first; none where the file is missing or damaged."""
    try:
        last = json.loads(read_small(folder.provenance))
    except (OSError, ValueError):
        return []
    return [*last.pop("earlier", []), last]


def _earlier(path: Path, git: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The records so far, without repeating the description of code that is the same now."""
    try:
        last = json.loads(read_small(path))
    except (OSError, ValueError):
        return [{"damaged": path.name}]
    if last.get("git") == git:
        last["git"] = "as in the record after this one"
    return [*last.pop("earlier", []), last]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _packages() -> dict[str, str]:
    """All that are installed, by the names of their folders: to open each would take longer than to start a run."""
    found: dict[str, str] = {}
    for entry in sys.path:
        for path in Path(entry).glob("*.dist-info"):
            name, _, version = path.stem.partition("-")
            found.setdefault(name.lower(), version)
    return dict(sorted(found.items()))


def _instructions() -> str | None:
    """Which of its instructions torch uses on this CPU, such as `AVX2`: others may add up in another order."""
    try:
        import torch

        return torch.backends.cpu.get_cpu_capability()
    except (ImportError, AttributeError):
        return None


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


# ---------------------------------------------------------------- git


def describe_code(folder: Path) -> dict[str, Any] | None:
    """Commit, changes and new files of the repository around `folder`; None where there is no repository or no git."""
    deadline = time.monotonic() + _GIT_SECONDS
    status = _git(folder, deadline, "status", "--porcelain", "--untracked-files=normal")
    if status is None:
        return None
    commit = _git(folder, deadline, "rev-parse", "HEAD")
    diff = _git(folder, deadline, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD")
    lines = _text(status).splitlines()
    return {
        "commit": _text(commit).strip() if commit else None,
        "dirty": any(not line.startswith("??") for line in lines),
        "untracked": [line[3:] for line in lines if line.startswith("??")][:100],
        "diff": _text(diff[:_LIMIT]) if diff is not None else None,
        "diff_cut_off": diff is not None and len(diff) > _LIMIT,
    }


def _describe_own_code(here: Path) -> dict[str, Any] | None:
    """The repository that Shoal itself is used from, where that is another than the one around the run."""
    package = Path(__file__).resolve().parent.parent
    if "site-packages" in package.parts or _repository(package) in (None, _repository(here)):
        return None
    return describe_code(package)


def _repository(folder: Path) -> Path | None:
    return next((path for path in (folder, *folder.parents) if (path / ".git").exists()), None)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _git(folder: Path, deadline: float, *arguments: str) -> bytes | None:
    """What git says, little more than the limit; None if it fails or is not done by `deadline`."""
    # fsmonitor off and no optional locks: git must neither start a daemon nor hold up the user's own git
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None
    assert process.stdout is not None
    with process.stdout as pipe:
        raw, ended = _read_until(pipe, deadline)
    if ended:
        return raw if _exit_code(process, deadline) == 0 else None
    _kill(process)
    return raw if len(raw) > _LIMIT else None


def _read_until(pipe: IO[bytes], deadline: float) -> tuple[bytes, bool]:
    """The output, and whether that was all: reading stops at `deadline` and beyond the limit."""
    parts: list[bytes] = []
    size = 0
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while size <= _LIMIT and selector.select(max(0.0, deadline - time.monotonic())):
            part = os.read(pipe.fileno(), 65536)
            if not part:
                return b"".join(parts), True
            parts.append(part)
            size += len(part)
    return b"".join(parts), False


def _exit_code(process: subprocess.Popen[bytes], deadline: float) -> int | None:
    try:
        return process.wait(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        _kill(process)
        return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End git with the filters it started: they are one group."""
    os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
