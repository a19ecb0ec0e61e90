"""Where Prometheus finds the runs of a folder: `prometheus.json`, for `file_sd_configs`. A run adds itself, and goes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import time
from collections.abc import Iterator
from typing import Any

from shoal.base.files import plain_file, read_small, unwritable, write_atomic
from shoal.monitoring.run_folder import RunFolder

FILE = "prometheus.json"
_PATIENCE = 5.0
"""Seconds to wait for another run that writes the file; it takes milliseconds."""


class Announcement:
    """The entry of one live run. Those of runs that were killed go when another run of their machine begins or ends.

    `population`: the name of one, whose folder it is. It has no trial: an empty label is none to Prometheus.
    """

    def __init__(self, folder: RunFolder, target: str, *, population: str | None = None) -> None:
        self._root = folder.path.parent if population else folder.path.parent.parent
        experiment, trial = (population, "") if population else (folder.experiment, folder.trial)
        self._labels = {"experiment": experiment, "trial": trial, "machine": platform.node()}
        self.path = self._root / FILE
        try:
            self._write({"targets": [target], "labels": self._labels})
        except OSError as error:
            raise unwritable(self.path, error) from error

    def withdraw(self) -> None:
        """The run is over. A disk in trouble is no reason to fail now."""
        with contextlib.suppress(OSError):
            self._write()

    def _write(self, *own: dict[str, Any]) -> None:
        with self._alone():
            others = [entry for entry in self._read() if not self._is_own(entry) and self._may_live(entry)]
            write_atomic(self.path, json.dumps([*others, *own], indent=2) + "\n")

    def _is_own(self, entry: dict[str, Any]) -> bool:
        return all(entry["labels"][name] == self._labels[name] for name in ("experiment", "trial"))

    def _may_live(self, entry: dict[str, Any]) -> bool:
        """Of a run on another machine nobody here can tell."""
        experiment, trial, machine = (entry["labels"][name] for name in self._labels)
        return machine != self._labels["machine"] or RunFolder(self._root / experiment / trial).locked

    def _read(self) -> list[dict[str, Any]]:
        """What is there, if it is ours."""
        try:
            entries = json.loads(read_small(self.path))
            return [entry for entry in entries if all(isinstance(entry["labels"][name], str) for name in self._labels)]
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            return []

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One writer at a time; one that was stopped while it wrote is not waited for long."""
        handle, deadline = (
            plain_file(self._root / f".{FILE}.lock", os.O_RDWR | os.O_CREAT),
            time.monotonic() + _PATIENCE,
        )
        try:
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    time.sleep(0.01)
            yield
        finally:
            os.close(handle)
