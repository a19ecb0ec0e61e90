"""A life of a store, killed or failed at a system call of one's choice by strace.

The work runs in a fork of this process, so that torch is imported once. strace attaches to it before it begins; what it has done it
tells through shared memory, because a pipe would need system calls of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
import shutil
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from shoal.base.errors import ShoalError
from shoal.checkpoints.store import CheckpointStore

CALLS = (
    "openat", "write", "writev", "pwrite64", "ftruncate", "fallocate", "fsync", "fdatasync", "sync_file_range", "rename",
    "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat",
)  # fmt: skip
"""All that creates, writes, syncs, renames, links or removes."""
KEEP = 2
PR_SET_PTRACER = 0x59616D61


def tensors(version: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(version)
    return {"weight": torch.randn(7, 5, generator=random), "version": torch.tensor(version)}


def save(store: CheckpointStore, version: int) -> None:
    store.save(version, tensors(version), {"version": version}, extras={"part.safetensors": tensors(version + 1000)})


Step = Callable[[CheckpointStore], object]
STEPS: list[tuple[Step, int, int | None]] = [
    (lambda store: save(store, 2), 2, None),
    (lambda store: store.tag("best", 2), 2, 2),
    (lambda store: save(store, 3), 3, 2),
    (lambda store: save(store, 4), 4, 2),  # 1 goes, 2 has a tag
    (lambda store: store.tag("best", 4), 4, 4),
    (lambda store: save(store, 4), 4, 4),  # replaced
    (lambda store: save(store, 5), 5, 4),  # 2 goes
    (lambda store: store.untag("best"), 5, None),
    (lambda store: save(store, 6), 6, None),
    (lambda store: store.drop_newer(5), 5, None),
    (lambda store: save(store, 6), 6, None),
]
"""What is done, and after it: the newest version, and the one that is `best`. Before all of it there is version 1."""


@dataclass
class Ending:
    """How a life ended."""

    status: int
    done: int
    """Steps that were finished."""
    said: str
    """The error that ended it."""
    log: str


def prepare(folder: Path) -> None:
    save(CheckpointStore(folder, KEEP), 1)


def live(template: Path, folder: Path, options: list[str]) -> Ending:
    """All steps on a copy of `template`, under strace with `options`."""
    shutil.copytree(template, folder)
    memory = mmap.mmap(-1, 4096)
    child = os.fork()
    if child == 0:
        _work(folder, memory)
    log = folder.parent / "strace.log"
    words = ["strace", "-o", str(log), "-e", f"trace={','.join(CALLS)}", *options, "-p", str(child)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        first = strace.stderr.readline()
        memory[0] = 1 if "attached" in first else 2
        _, status = os.waitpid(child, 0)
        strace.communicate(timeout=30)
    assert "attached" in first, first
    said = memory[2:].rstrip(b"\0").decode(errors="replace")
    return Ending(status, memory[1], said, log.read_text())


def _work(folder: Path, memory: mmap.mmap) -> None:
    """In the fork: wait until strace is there, then go through the steps; never returns."""
    code = 4
    try:
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
        store = CheckpointStore(folder, KEEP)
        while not memory[0]:
            time.sleep(0.001)
        for number, (step, _, _) in enumerate(STEPS, 1) if memory[0] == 1 else ():
            step(store)
            memory[1] = number
        code = 0
    except ShoalError as error:
        code, text = 3, str(error).encode()[:4000]
        memory[2 : 2 + len(text)] = text
    except BaseException:
        text = traceback.format_exc().encode()[-4000:]
        memory[2 : 2 + len(text)] = text
    finally:
        os._exit(code)


def count_calls(log: str) -> Counter[str]:
    """How often each call was made."""
    return Counter(re.findall(r"^(\w+)\(", log, re.MULTILINE))


def works() -> bool:
    """Whether strace is installed and may trace."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        words = ["strace", "-o", "/dev/null", "-e", "inject=getpid:error=EIO", "true"]
        return subprocess.run(words, capture_output=True, timeout=30).returncode == 0
    return False


def problems(folder: Path, ending: Ending) -> Iterator[str]:
    """What a process that comes afterwards misses, or finds too much of. Then it goes on, and tidies up."""
    _, newest, best = STEPS[ending.done - 1] if ending.done else (None, 1, None)
    _, next_newest, next_best = STEPS[min(ending.done, len(STEPS) - 1)]
    store = CheckpointStore(folder, KEEP)
    found = store.latest()
    if found.skipped or found.version not in (newest, next_newest):
        yield f"version {found.version} is the latest, {newest} or {next_newest} should be; skipped {found.skipped}"
    for version in store.versions():
        checkpoint = store.load(version)
        whole = {**checkpoint.tensors}, checkpoint.extra("part.safetensors")
        for got, wanted in zip(whole, (tensors(version), tensors(version + 1000)), strict=True):
            if got.keys() != wanted.keys() or not all(torch.equal(got[name], wanted[name]) for name in wanted):
                yield f"version {version} is not what was saved"
    if store.tags().get("best") not in (best, next_best) or store.damaged_tags():
        yield f"tags {store.tags()}, damaged {store.damaged_tags()}; best should be {best} or {next_best}"
    elif "best" in store.tags() and store.load("best").version != store.tags()["best"]:
        yield "the best one is not there"
    save(store, 9)
    save(store, 10)
    left = [path.name for path in (*folder.iterdir(), *folder.glob("tags/*")) if path.name.startswith(".")]
    if left or len(set(store.versions()) - set(store.tags().values())) > KEEP:
        yield f"left behind: {left}, {store.versions()}"
