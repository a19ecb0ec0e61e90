"""Where rows of numbers go. A row is flat: `{"step": 2048, "update": 1, "rollout/ep_rew_mean": 21.3}`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from shoal.base.files import plain_file, unwritable
from shoal.monitoring.event_file import EventFile
from shoal.monitoring.jsonl import drop_later, encode_line, mend

Row = dict[str, float | int | str]
EVAL, EVALUATED_AT = "eval/", "eval/steps"
"""Columns of a version that was evaluated, and the one that says how many steps were behind it."""


class Sink(Protocol):
    """Takes rows, oldest first."""

    def write(self, row: Row) -> None:
        """Take one row."""

    def close(self) -> None:
        """Nothing more will come."""


class JsonlSink:
    """One line of JSON per row, in the file when `write` returns.

    An existing file is continued: a torn last line is cut off, and so are the rows beyond `resume_step`, the step of
    the checkpoint that the run goes on from.
    """

    def __init__(self, path: Path, resume_step: int | None = None) -> None:
        self._path = path
        try:
            mend(path)
            if resume_step is not None:
                drop_later(path, resume_step)
            self._file = open(path, "ab", opener=plain_file)  # noqa: SIM115
        except OSError as error:
            raise unwritable(path, error) from error

    def write(self, row: Row) -> None:
        """Append the row."""
        try:
            self._file.write(encode_line(row))
            self._file.flush()
        except OSError as error:
            raise unwritable(self._path, error) from error

    def close(self) -> None:
        """Let go of the file."""
        try:
            self._file.close()
        except OSError as error:
            raise unwritable(self._path, error) from error


class TensorBoardSink:
    """A curve over environment steps per key that holds a `/`. What lies beyond `resume_step` leaves the curves.

    The score of a version that was evaluated beside training is drawn at that version's steps, not at those of its row.
    """

    def __init__(self, folder: Path, resume_step: int | None = None) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._event, self._summary = Event, Summary
        self._folder = folder
        self._file = EventFile(folder)
        if resume_step is not None:
            again = SessionLog(status=SessionLog.START)
            self._file.add(Event(wall_time=time.time(), step=resume_step + 1, session_log=again))

    def write(self, row: Row) -> None:
        """Add a point to every curve in the row."""
        evaluated_at = row.get(EVALUATED_AT)
        for step, belongs in ((evaluated_at, True), (row["step"], False)):
            values = [
                self._summary.Value(tag=key, simple_value=value)
                for key, value in row.items()
                if "/" in key
                and not isinstance(value, str)
                and (evaluated_at is None or key.startswith(EVAL) is belongs)
            ]
            if step is not None:
                self._add(int(step), values)

    def _add(self, step: int, values: list[Any]) -> None:
        summary = self._summary(value=values)
        try:
            self._file.add(self._event(wall_time=time.time(), step=step, summary=summary))
        except OSError as error:
            raise unwritable(self._folder, error) from error

    def animate(self, step: int, path: Path) -> None:
        """Show an animation (a gif) among the images, as `eval/video`."""
        data = path.read_bytes()
        width, height = (int.from_bytes(data[at : at + 2], "little") for at in (6, 8))  # of a gif's header
        image = self._summary.Image(height=height, width=width, colorspace=3, encoded_image_string=data)
        self._add(step, [self._summary.Value(tag=f"{EVAL}video", image=image)])

    def close(self) -> None:
        """Let go of the file."""
        try:
            self._file.close()
        except OSError as error:
            raise unwritable(self._folder, error) from error


class FanOut:
    """Every row to every sink."""

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self.sinks = list(sinks)

    def write(self, row: Row) -> None:
        """Hand the row on."""
        for sink in self.sinks:
            sink.write(row)

    def close(self) -> None:
        """Close all of them, even if one cannot."""
        with contextlib.ExitStack() as stack:
            for sink in reversed(self.sinks):
                stack.callback(sink.close)
