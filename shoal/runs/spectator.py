"""Watching a live run: a lease in, the newest image of its newest checkpoint at play out, a few times a second.

The environments of training draw nothing, and shall not: so a process of its own, of the lowest priority, plays one copy beside
them for as long as somebody renews the lease.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.base.descendants import kill_tree
from shoal.base.files import make_folder, plain_file
from shoal.monitoring.run_folder import RunFolder

if TYPE_CHECKING:
    from shoal.api.env import Array
    from shoal.evaluation.evaluator import Evaluator

FOLDER, LEASE, FRAME, SAID = "watch", "lease", "frame.jpg", "said"
SECONDS = 6.0
"""For which a lease holds."""
FRAMES = 4.0
"""Images a second at most."""
AGAIN = 10.0
"""Seconds until one that could not play is started again."""
SIDE = 640
"""Pixels of an image at most, on its longer side."""


class Spectator:
    """The run's side: starts the process when somebody looks, and ends it with the run."""

    def __init__(self, folder: RunFolder) -> None:
        self._run, self._folder = folder, folder.path / FOLDER
        self._process: subprocess.Popen[bytes] | None = None
        self._began = -AGAIN

    def has_checkpoint(self) -> bool:
        """There is something to play with."""
        with contextlib.suppress(OSError):
            return any(name.isdecimal() for name in os.listdir(self._run.checkpoints))
        return False

    def lease(self) -> str:
        """Somebody looks, for some seconds more. What there is to say to them."""
        make_folder(self._folder)
        _write(self._folder / LEASE, b"")
        if not self.has_checkpoint():
            return "waiting for the first checkpoint"
        idle = self._process is None or self._process.poll() is not None
        if idle and time.monotonic() - self._began >= AGAIN:
            self._start()
        with contextlib.suppress(OSError):
            return (self._folder / SAID).read_text()[:300]
        return "an environment is being made"

    def _start(self) -> None:
        self._began = time.monotonic()
        words = [sys.executable, "-m", __name__, str(self._run.path.absolute()), str(os.getpid())]
        with open(self._run.logs / "spectator.log", "ab", opener=plain_file) as log:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def close(self) -> None:
        """Leave neither a process nor a file."""
        if self._process is not None and self._process.poll() is None:
            kill_tree(self._process.pid)
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, for readers; nothing of it has to survive."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "wb", opener=plain_file) as file:
        file.write(data)
    os.replace(temporary, path)


# ---------------------------------------------------------------- the process


def play(run: Path) -> None:
    """Until nobody looks any more: episode after episode, each with the newest checkpoint."""
    from shoal.base.errors import ShoalError
    from shoal.checkpoints.store import CheckpointStore
    from shoal.evaluation.evaluator import Watch
    from shoal.runs.evaluate import load_run, seat_run

    folder, number = run / FOLDER, 0
    store = CheckpointStore(run / "checkpoints", keep=1 << 30)
    try:
        while _leased(folder):
            loaded = load_run(str(run), against=[])
            watch = Watch(seed=number, copies=1, explore=False, render=True, thoughts=False)
            with contextlib.closing(seat_run(loaded, 1, watch, None)) as players:
                while _leased(folder) and store.versions()[-1:] == [loaded.version]:
                    number += 1
                    if not _episode(players.first, folder, loaded.version, number):
                        return
    except ShoalError as error:
        _write(folder / SAID, str(error).encode())
    finally:
        for name in (FRAME, LEASE):
            (folder / name).unlink(missing_ok=True)


def _episode(evaluator: Evaluator, folder: Path, version: int, seed: int) -> bool:
    """One, at the pace that the environment is meant to be seen at; False where it draws nothing."""
    batch, steps = evaluator.begin(1, seed=seed), 0
    each = max(1, round(evaluator.env.render_fps / FRAMES))
    due = time.monotonic()
    while not batch.over and _leased(folder):
        if steps % each == 0:
            image = evaluator.env.render(0)
            if image is None:
                _write(folder / SAID, b"this environment draws no images of itself")
                return False
            _write(folder / FRAME, _encoded(image))
            _write(folder / SAID, f"version {version:,} plays beside training, step {steps:,}".encode())
            due = max(due + each / evaluator.env.render_fps, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
        batch.step()
        steps += 1
    return True


def _encoded(image: Array) -> bytes:
    from PIL import Image

    drawn, data = Image.fromarray(image), io.BytesIO()
    drawn.thumbnail((SIDE, SIDE))
    drawn.save(data, "jpeg", quality=80)
    return data.getvalue()


def _leased(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return time.time() - (folder / LEASE).stat().st_mtime < SECONDS
    return False


def main() -> None:
    """Run by the run: its folder, and the process that it ends with."""
    run, parent = Path(sys.argv[1]), int(sys.argv[2])
    os.nice(19)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends us
    from shoal.base.importing import importing

    with importing():
        from shoal.evaluation.video import require_video
        from shoal.launchers.process import die_with

    from shoal.base.errors import ShoalError

    die_with(parent)
    try:
        require_video()
    except ShoalError as error:
        _write(run / FOLDER / SAID, str(error).encode())
        return
    play(run)


if __name__ == "__main__":
    main()
