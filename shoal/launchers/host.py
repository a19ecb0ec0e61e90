"""What runs in a host's process: attach to the streams, build the workers, poll them in turn, report, obey."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from shoal.api.experiment import Experiment
from shoal.api.metric import Metric, merge_into
from shoal.api.worker import Report, Worker
from shoal.base.faults import parse_faults
from shoal.checkpoints.contents import to_bytes
from shoal.checkpoints.store import CheckpointStore
from shoal.monitoring.logs import log_to
from shoal.program.build import Builder, Life
from shoal.program.contents import CONTENTS
from shoal.program.hosts import Host
from shoal.program.program import expand
from shoal.streams.control import STOP, ControlEnd
from shoal.streams.primitives import AbandonedError, Mailbox, Waiter
from shoal.streams.shared_streams import AttachedStreams, StreamHandles
from shoal.streams.transports.shm.pulse import PulseBoard
from shoal.streams.transports.shm.segment import SegmentHandle

POLL = 0.1
"""Seconds a host sleeps at most before it looks for orders."""
QUIET = 0.1
"""Seconds between two reports that hold nothing but numbers."""

STARTING = 60.0
"""Seconds that worlds may take to be made and reset, on top of `env.timeout`."""
PR_SET_PDEATHSIG = 1
GRACE = 10
"""Seconds a host lives on after SIGTERM, so that the launcher can save and end the run first."""


class HostOrder(NamedTuple):
    """Everything a host needs to know."""

    launcher: int
    """Its process."""
    settings: dict[str, Any]
    """The resolved experiment."""
    host: Host
    number: int
    """Its place on the pulse board."""
    streams: StreamHandles
    pulses: SegmentHandle
    life: Life
    checkpoints: str
    """Where checkpoints lie, and which version to go on from; -1: from none."""
    checkpoint: int
    logs: str
    faults: str
    core: int | None = None
    """The one it keeps to; None: whichever is free."""


def serve(order: HostOrder, connection: Connection) -> None:
    """Run the workers of one host until told to stop, or until the launcher is gone."""
    die_with(order.launcher)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the launcher decides what it means
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(GRACE))  # so may this; but who sends it to us alone means us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    torch.set_num_threads(1)
    if order.core is not None:
        os.sched_setaffinity(0, {order.core})
    control = ControlEnd(connection)
    with log_to(Path(order.logs), order.host.name):
        try:
            streams = AttachedStreams(order.streams, order.life.incarnation)
            asked = streams.mailbox(CONTENTS) if CONTENTS in order.streams.boxes else None
            poll_workers(build_workers(order, streams), control, streams.waiter, asked)
        except AbandonedError:  # by the launcher, which stops or starts us again
            return
        except BaseException as error:
            control.fail(error)
            raise


def build_workers(order: HostOrder, streams: AttachedStreams) -> list[Worker]:
    """The workers of a host, in the order in which they are polled."""
    life = order.life
    if order.checkpoint >= 0 and (order.host.has("trainer") or order.host.has("buffer") or life.whole):
        life.start = CheckpointStore(Path(order.checkpoints)).load(order.checkpoint)
    pulse = PulseBoard.attach(order.pulses).place(order.number)
    if order.host.has("actor") or order.host.has("evaluation"):
        pulse.begin(STARTING)
    program = expand(Experiment.parse(order.settings))
    builder = Builder(
        program, streams, life, pulse, parse_faults(order.faults), supervised=True, checkpoints=Path(order.checkpoints)
    )
    workers = [builder.build(job) for job in order.host.jobs]
    pulse.rest()
    return workers


def poll_workers(workers: list[Worker], control: ControlEnd, waiter: Waiter, asked: Mailbox | None = None) -> None:
    """Poll them in turn, report and obey, until told to stop. `asked`: for which version their contents are wanted."""
    outbox = Outbox(control)
    answered = -1  # a new life is asked again, maybe before it can hear: what was asked of the old one does no harm

    def sweep() -> bool:
        nonlocal answered
        worked = False
        if asked is not None and asked.latest() > answered:
            answered = asked.latest()
            outbox.put(_contents(workers, asked))
            worked = True
        for worker in workers:
            report = worker.poll(0.0)
            worked |= report.worked
            outbox.put(report)
        return worked

    looked = 0.0
    while True:
        waiter.wait_until(sweep, POLL)
        now = time.monotonic()
        if now - looked >= POLL:
            looked = now
            outbox.flush()
            if control.take() == STOP:
                break
    for worker in workers:
        worker.close()


def _contents(workers: list[Worker], asked: Mailbox) -> Report:
    version, number = np.zeros(1, np.int64), asked.latest()
    asked.read(number, version.view(np.uint8))
    held = {worker.name: to_bytes(worker.contents(int(version[0]))) for worker in workers}
    return Report(True, contents=held, asked=number)


class Outbox:
    """Sends what matters at once; numbers alone wait for company."""

    def __init__(self, control: ControlEnd) -> None:
        self._control = control
        self._metrics: dict[str, Metric] = {}
        self._sent = 0.0

    def put(self, report: Report) -> None:
        """Take over one report."""
        if not report.worked:
            return
        told = (report.version, report.state, report.evaluating, report.evaluation)
        if (
            report.steps
            or report.rounds
            or report.episodes
            or report.contents
            or any(part is not None for part in told)
        ):
            self._control.report(report)
            return
        merge_into(self._metrics, report.metrics)
        if time.monotonic() - self._sent >= QUIET:
            self.flush()

    def flush(self) -> None:
        """Send the numbers that wait."""
        if self._metrics:
            self._control.report(Report(True, metrics=self._metrics))
            self._metrics = {}
        self._sent = time.monotonic()


def die_with(launcher: int) -> None:
    """End with the launcher, however it ends. It is no parent of ours, the fork server is: so a thread waits for its death.

    End with the fork server too: without it the launcher takes us for dead, and starts another in our place.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    handle = os.pidfd_open(launcher)

    def watch() -> None:
        select.select([handle], [], [])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
