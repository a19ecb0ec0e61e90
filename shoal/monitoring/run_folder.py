"""The run folder `runs/<experiment>/<trial>/`: a run writes everything there, and whatever shows it reads there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from shoal.base.errors import InputError, ShoalError
from shoal.base.files import as_typed, check_name, make_folder, plain_file, read_small, write_atomic
from shoal.base.table import did_you_mean
from shoal.monitoring.jsonl import append_line, mend, newest_first
from shoal.monitoring.logs import shortened
from shoal.monitoring.trial_name import propose_name

DEFAULT_ROOT = Path("runs")
POPULATION = "population.yaml"
"""Beside the run folders of a population: the settings that its members share."""


class SupersededError(ShoalError):
    """Somebody else writes the folder now."""


class RunFolder:
    """One run on disk. Made by `create`, `open` or `find`; a trainer calls `lock` before it writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._claimed = ""

    # ---------------------------------------------------------------- finding it

    @classmethod
    def create(cls, root: Path, experiment_name: str, trial: str | None = None) -> Self:
        """A new folder; without `trial` under a name of its own."""
        if trial is not None:
            check_name("--trial", trial)
        parent = root / check_name("name", experiment_name)
        try:
            make_folder(parent)
            path = _make_unique(parent) if trial is None else _make_new(parent / trial)
        except OSError as error:
            raise InputError(f"no run folder can be made in {as_typed(parent)}: {error.strerror}") from None
        return cls(path)

    @classmethod
    def open(cls, root: Path, experiment: str, trial: str) -> Self:
        """The folder of a trial that exists, to resume it."""
        parent = root / check_name("name", experiment)
        path = parent / check_name("--trial", trial)
        if not path.is_dir():
            raise InputError(
                f"there is no trial '{trial}' in {as_typed(parent)}; {did_you_mean(trial, _folders(parent))}"
            )
        return cls(path)

    @classmethod
    def find(cls, run: str, root: Path = DEFAULT_ROOT) -> Self:
        """The run someone means: a path to its folder, `experiment/trial`, or `experiment` for its newest trial."""
        for path in (Path(run), root / run):
            if cls(path).config.is_file():
                return cls(path)
        parent = root / run
        trials = [folder for name in _folders(parent) if (folder := cls(parent / name)).config.is_file()]
        if trials:
            return max(trials, key=lambda folder: (folder.last_written, folder.trial))
        for path in (Path(run), root / run):
            if (path / ".lock").is_file():
                raise InputError(
                    f"{run} is starting, or ended before it began: ask again, or look into {cls(path).logs}"
                )
        raise InputError(f"there is no run '{run}'; {_what_exists(root, run)}")

    @classmethod
    def find_all(cls, run: str, root: Path = DEFAULT_ROOT) -> list[Self]:
        """All that someone means: one run, as for `find`, or every trial of an experiment, by its name or its folder."""
        if not any(cls(path).config.is_file() for path in (Path(run), root / run)):
            for parent in (root / run, Path(run)):
                trials = [cls(parent / name) for name in _folders(parent) if cls(parent / name).config.is_file()]
                if trials:
                    return trials
        return [cls.find(run, root)]

    @classmethod
    def everywhere(cls, root: Path = DEFAULT_ROOT) -> list[Self]:
        """All runs below `root`."""
        folders = [cls(root / name / trial) for name in _folders(root) for trial in _folders(root / name)]
        return [folder for folder in folders if folder.config.is_file()]

    @property
    def last_written(self) -> float:
        """When the run last did something, in seconds since the epoch."""
        paths = (self.path, self.config, self.metrics, self.checkpoints)
        return max(path.stat().st_mtime for path in paths if path.exists())

    # ---------------------------------------------------------------- what is in it

    @property
    def experiment(self) -> str:
        """The experiment's name."""
        return self.path.resolve().parent.name

    @property
    def trial(self) -> str:
        """The trial's name."""
        return self.path.resolve().name

    @property
    def name(self) -> str:
        """`experiment/trial`."""
        return f"{self.experiment}/{self.trial}"

    @property
    def is_member(self) -> bool:
        """It is a run of a population."""
        return (self.path.resolve().parent / POPULATION).is_file()

    @property
    def config(self) -> Path:
        """The resolved experiment."""
        return self.path / "config.yaml"

    @property
    def provenance(self) -> Path:
        """Where the run came from."""
        return self.path / "provenance.json"

    @property
    def metrics(self) -> Path:
        """One row of numbers per line."""
        return self.path / "metrics.jsonl"

    @property
    def events(self) -> Path:
        """Starts, faults, restarts, orders: one per line."""
        return self.path / "events.jsonl"

    @property
    def tensorboard(self) -> Path:
        """Event files for TensorBoard."""
        return self.path / "tensorboard"

    @property
    def wandb(self) -> Path:
        """Which run of Weights & Biases it is."""
        return self.path / "wandb.json"

    @property
    def checkpoints(self) -> Path:
        """A folder per saved version."""
        return self.path / "checkpoints"

    @property
    def videos(self) -> Path:
        """Films of versions that were evaluated."""
        return self.path / "videos"

    @property
    def logs(self) -> Path:
        """A file per worker; made by who writes the first."""
        return self.path / "logs"

    @property
    def control(self) -> Path:
        """The socket of a live run: see `panel.py`."""
        return self.path / "control.sock"

    # ---------------------------------------------------------------- reading and writing

    def write_config(self, values: dict[str, Any]) -> None:
        """Keep the resolved experiment: the folder alone must do to repeat, resume and evaluate the run."""
        write_atomic(self.config, _as_yaml(values))

    def read_config(self, overrides: list[str] | None = None) -> dict[str, Any]:
        """The resolved experiment as plain values, with `key=value` overrides laid on top."""
        from shoal.base.config import load_layers

        if not self.config.is_file():
            raise InputError(f"{as_typed(self.path)} is no run folder: it has no {self.config.name}")
        return load_layers(self.config, overrides or [], saved=True)

    def event(self, kind: str, **fields: Any) -> None:
        """Note that something happened, with the time of day. Any process of the run may."""
        self.check_writer()
        short = {key: shortened(value) if isinstance(value, str) else value for key, value in fields.items()}
        append_line(self.events, {"time": wall_time(), "kind": kind, **short})

    def read_events(self) -> list[dict[str, Any]]:
        """All that happened, oldest first."""
        return list(newest_first(self.events))[::-1]

    # ---------------------------------------------------------------- one trainer at a time

    def lock(self, name: str = "", wait: float = 0.0) -> None:
        """Claim the folder for this process. The kernel lets go when the process dies, however it dies.

        `name`: of one that may come again while its last life goes on out of reach. The last life is told to end, by a claim in
        `.writer`, and the new one waits for the lock. Nobody writes without it, nor against the claim of another.
        """
        if self._lock is not None:
            return
        path, again = self.path / ".lock", bool(name) and self._writer().startswith(f"{name} ")
        try:
            handle = plain_file(path, os.O_RDWR | os.O_CREAT)
            if again:
                self._claim(name)
            self._wait_for(handle, wait if again else 0.0)
        except BlockingIOError:
            os.close(handle)
            raise InputError(
                f"{as_typed(self.path)} is being trained by process {self.owner}: wait for it, or stop it"
            ) from None
        except OSError as error:
            raise ShoalError(f"{as_typed(path)} cannot be locked ({error.strerror}): keep runs where it can") from None
        if not again:
            self._claim(name)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        self._lock = handle
        mend(self.events)

    def _wait_for(self, handle: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise
            self.check_writer()
            time.sleep(0.1)

    def _claim(self, name: str) -> None:
        self._claimed = f"{name} {secrets.token_hex(8)}"
        write_atomic(self.path / ".writer", self._claimed)

    def _writer(self) -> str:
        try:
            return (self.path / ".writer").read_text()
        except OSError:  # nobody claimed it yet, or the disk is out of reach: then so is what would be written
            return ""

    def check_writer(self) -> None:
        """Fail if another has claimed the folder since: who writes for the run asks first."""
        if self._claimed and self._writer() not in ("", self._claimed):
            raise SupersededError(f"{self.name} was taken over by another controller: this one writes no more")

    @property
    def owner(self) -> str:
        """The number of the process that trains here, or did so last."""
        with contextlib.suppress(OSError):
            if number := read_small(self.path / ".lock").decode(errors="replace").strip():
                return number
        return "(not known yet)"

    @property
    def locked(self) -> bool:
        """A process of this machine trains here. Read from the kernel's list: whoever tries the lock may keep a trainer from it."""
        with contextlib.suppress(OSError):
            inode = (self.path / ".lock").lstat().st_ino
            locks = (line.split() for line in Path("/proc/locks").read_text().splitlines())
            return any(lock[4] == self.owner and lock[5].endswith(f":{inode}") for lock in locks if lock[1] == "FLOCK")
        return False

    def unlock(self) -> None:
        """Let the next one train here."""
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # a forked child may still hold a copy of the handle
            os.close(self._lock)
            self._lock = None


_TEXTS: dict[str, str] = {}
"""Settings -> how they are written out, which takes a part of every turn: a population's members take turns with the same ones."""


def _as_yaml(values: dict[str, Any]) -> str:
    from omegaconf import OmegaConf

    key = repr(values)
    if key not in _TEXTS:
        while len(_TEXTS) >= 64:
            _TEXTS.pop(next(iter(_TEXTS)))
        _TEXTS[key] = OmegaConf.to_yaml(OmegaConf.create(values))
    return _TEXTS[key]


def wall_time() -> str:
    """Now, as ISO 8601 with the offset from UTC."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def _make_new(path: Path) -> Path:
    try:
        path.mkdir(0o700)
    except FileExistsError:
        raise InputError(
            f"{as_typed(path)} exists already: continue it with --resume, or choose another --trial"
        ) from None
    return path


def _make_unique(parent: Path) -> Path:
    for _ in range(1000):
        path = parent / propose_name()
        try:
            path.mkdir(0o700)
        except FileExistsError:  # taken, perhaps by a process that started with us
            continue
        return path
    raise InputError(f"{as_typed(parent)} is full of trials: name this one with --trial")


def _folders(parent: Path) -> list[str]:
    if not parent.is_dir():
        return []
    return sorted(entry.name for entry in parent.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _what_exists(root: Path, run: str) -> str:
    runs = [f"{experiment}/{trial}" for experiment in _folders(root) for trial in _folders(root / experiment)]
    if not runs:
        return f"{root}/ holds none yet: train one first"
    parts = did_you_mean(run, {*runs, *(name.split("/")[0] for name in runs)})
    return f"{parts} (in {root}/)" if len(parts) < 400 else f"{len(runs)} others are in {root}/"
