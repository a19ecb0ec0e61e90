"""The control stream: reports to the controller, orders to the workers; msgpack, in order, none lost."""

from __future__ import annotations

from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

import msgpack
import numpy as np

from shoal.api.env import Episode
from shoal.api.metric import Largest, Last, Mean, Metric, Total
from shoal.api.worker import Report
from shoal.base.errors import InputError, ShoalError

_METRICS: dict[str, type[Metric]] = {cls.__name__: cls for cls in (Mean, Total, Last, Largest)}
STOP = "stop"


class ControlEnd:
    """One end of a link between a worker's process and the controller's."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def report(self, report: Report) -> None:
        """Worker: say what was done."""
        self._send(["report", _pack(report)])

    def fail(self, error: BaseException) -> None:
        """Worker: say what went wrong, before the process ends."""
        known = isinstance(error, ShoalError)
        self._send(
            ["failure", isinstance(error, InputError), str(error) if known else f"{type(error).__name__}: {error}"]
        )

    def order(self, word: str) -> None:
        """Controller: tell the worker something; a worker that is gone needs no orders."""
        try:
            self._send(["order", word])
        except OSError:
            return

    def take(self) -> Report | str | None:
        """What the other end sent next: a report or an order, None if nothing waits. A failure is raised."""
        if not self._connection.poll(0):
            return None
        try:
            kind, *rest = msgpack.unpackb(self._connection.recv_bytes())
        except (EOFError, OSError):
            return None
        if kind == "failure":
            wrong_input, text = rest
            raise (InputError if wrong_input else ShoalError)(text)
        return _unpack(rest[0]) if kind == "report" else str(rest[0])

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _send(self, message: list[Any]) -> None:
        self._connection.send_bytes(msgpack.packb(message))


def _pack(report: Report) -> dict[str, Any]:
    packed = {**vars(report)}
    packed["metrics"] = {name: [type(m).__name__, *vars(m).values()] for name, m in report.metrics.items()}
    packed["episodes"] = [
        {**asdict(e), "returns": {group: returns.tolist() for group, returns in e.returns.items()}}
        for e in report.episodes
    ]
    return packed


def _unpack(packed: dict[str, Any]) -> Report:
    packed["metrics"] = {name: _METRICS[kind](*values) for name, (kind, *values) in packed["metrics"].items()}
    packed["episodes"] = [
        Episode(**{**e, "returns": {group: np.array(returns) for group, returns in e["returns"].items()}})
        for e in packed["episodes"]
    ]
    return Report(**packed)
