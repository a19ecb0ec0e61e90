"""The control stream: reports to the controller, orders to the workers; msgpack, in order, none lost."""

from __future__ import annotations

import traceback
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import msgpack
import numpy as np

from shoal.api.env import Episode
from shoal.api.evaluation import Evaluation, Scores
from shoal.api.metric import METRICS, Metric
from shoal.api.worker import Report
from shoal.base.errors import InputError, ShoalError

STOP = "stop"


class Failure(NamedTuple):
    """What a worker's process says before it ends."""

    wrong_input: bool
    text: str
    """One line."""
    trace: str


class ControlEnd:
    """One end of a link between a host and the controller's process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def fileno(self) -> int:
        """For select."""
        return self._connection.fileno()

    def report(self, report: Report) -> None:
        """Worker: say what was done."""
        self._send(["report", _pack(report)])

    def fail(self, error: BaseException) -> None:
        """Worker: say what went wrong, before the process ends."""
        text = str(error) if isinstance(error, ShoalError) else f"{type(error).__name__}: {error}"
        trace = "".join(traceback.format_exception(error))
        self._send(["failure", isinstance(error, InputError), text, trace])

    def order(self, word: str) -> None:
        """Controller: tell the worker something; a worker that is gone needs no orders."""
        try:
            self._send(["order", word])
        except OSError:
            return

    def take(self) -> Report | Failure | str | None:
        """The next report, failure or order; None if nothing waits."""
        try:
            if not self._connection.poll(0):
                return None
            return parse(self._connection.recv_bytes())
        except (EOFError, OSError):
            return None

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _send(self, message: list[Any]) -> None:
        self._connection.send_bytes(msgpack.packb(message))


def parse(message: bytes) -> Report | Failure | str:
    """A report, a failure or an order."""
    kind, *rest = msgpack.unpackb(message)
    if kind == "failure":
        return Failure(*rest)
    return _unpack(rest[0]) if kind == "report" else str(rest[0])


def _pack(report: Report) -> dict[str, Any]:
    packed = {**vars(report)}
    packed["metrics"] = _words(report.metrics)
    packed["rounds"] = list(report.rounds.items())
    packed["episodes"] = [
        {**vars(e), "returns": _lists(e.returns), "played": _lists(e.played), "told": _words(e.told)}
        for e in report.episodes
    ]
    if report.evaluation is not None:
        packed["evaluation"] = asdict(report.evaluation)
    return packed


def _unpack(packed: dict[str, Any]) -> Report:
    packed["metrics"] = _metrics(packed["metrics"])
    packed["rounds"] = dict(packed["rounds"])
    for e in packed["episodes"]:
        e |= {"returns": _arrays(e["returns"]), "played": _arrays(e["played"]), "told": _metrics(e["told"])}
    packed["episodes"] = [Episode(**e) for e in packed["episodes"]]
    if (judged := packed["evaluation"]) is not None:
        scores = {name: Scores(**judged[name]) for name in ("scores", "confirmation") if judged[name] is not None}
        packed["evaluation"] = Evaluation(**{**judged, **scores})
    return Report(**packed)


def _words(metrics: dict[str, Metric]) -> dict[str, list[Any]]:
    return {name: [type(metric).__name__, *vars(metric).values()] for name, metric in metrics.items()}


def _metrics(words: dict[str, list[Any]]) -> dict[str, Metric]:
    return {name: METRICS[kind](*values) for name, (kind, *values) in words.items()}


def _lists(arrays: dict[str, np.ndarray]) -> dict[str, list[float]]:
    return {name: array.tolist() for name, array in arrays.items()}


def _arrays(lists: dict[str, list[float]]) -> dict[str, np.ndarray]:
    return {name: np.array(values) for name, values in lists.items()}
