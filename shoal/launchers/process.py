"""What runs in a process of a Program: attach to the streams, build the workers, poll them in turn, say what was done, obey."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from contextlib import ExitStack, closing, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import torch

from shoal.api.messages import Message, Numbers, Saved
from shoal.api.metric import Metric, merge_into
from shoal.api.orders import Order, Save, Stop
from shoal.api.program import Program
from shoal.api.worker import Heartbeat, Worker
from shoal.base.descendants import kill_below
from shoal.base.errors import InputError
from shoal.base.faults import parse_faults
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.contents import to_bytes
from shoal.checkpoints.store import CheckpointStore
from shoal.launchers.forkserver import leave_server
from shoal.monitoring.logs import log_to
from shoal.rollout.plans import Plans
from shoal.streams import names
from shoal.streams.control import ControlEnd, OrderReader
from shoal.streams.primitives import AbandonedError, Waiter
from shoal.streams.shared_streams import AttachedStreams, StreamHandles
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard
from shoal.streams.transports.shm.segment import SegmentHandle
from shoal.workers.context import Context, Life

POLL = 0.1
"""Seconds a process sleeps at most before it looks around."""
QUIET = 0.1
"""Seconds between two messages that hold nothing but numbers."""
STARTING = 60.0
"""Seconds that workers and their environments may take to be made, on top of what they have for a step."""
GRACE = 10
"""Seconds a process lives on after SIGTERM, so that the launcher can save and end the run first."""


class ProcessOrder(NamedTuple):
    """Everything a process needs to know."""

    launcher: int
    """Its process."""
    program: str
    """As JSON."""
    process: str
    number: int
    """Its place on the board of heartbeats."""
    streams: StreamHandles
    heartbeats: SegmentHandle
    life: Life
    checkpoints: str
    """Where checkpoints lie; empty: this machine cannot reach them."""
    checkpoint: int
    """Which version to go on from; -1: from none, or the life has it."""
    logs: str
    faults: str
    cores: tuple[int, ...] = ()
    """Those that it keeps to; none: whichever are free."""


def serve(order: ProcessOrder, connection: Connection) -> None:
    """Run the workers of one process until told to stop, or until the launcher is gone."""
    leave_server()
    die_with(order.launcher, os.getppid())  # and with the fork server: without it the launcher takes us for dead
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the launcher decides what it means
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(GRACE))  # so may this; but who sends it to us alone means us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    torch.set_num_threads(1)
    if order.cores:
        os.sched_setaffinity(0, order.cores)
    control = ControlEnd(connection)
    try:
        with (
            log_to(Path(order.logs), order.process),
            suppress(AbandonedError),
        ):  # by the launcher, which starts us again
            work(order, control)
    except Exception:  # is in the log, and told to the launcher: multiprocessing would print it on top
        sys.exit(1)


def work(order: ProcessOrder, control: ControlEnd) -> None:
    """Attach to the streams, build the workers, poll them until told to stop.

    What goes wrong is said before anything is closed, since that may hang. What environments started does not outlive them.
    """
    with ExitStack() as stack:
        stack.callback(kill_below, os.getpid())
        try:
            streams = AttachedStreams(order.streams, order.life.incarnation)
            orders = OrderReader(streams.ring(names.orders(order.process)))
            heartbeat = HeartbeatBoard.attach(order.heartbeats).place(order.number)
            workers = build_workers(order, streams, heartbeat, stack)
            poll_workers(workers, control, streams.waiter, orders, heartbeat)
        except AbandonedError:
            raise
        except BaseException as error:
            control.fail(error)
            raise


def build_workers(
    order: ProcessOrder, streams: AttachedStreams, heartbeat: Heartbeat, stack: ExitStack
) -> list[Worker]:  # fmt: skip
    """The workers of a process, in the order in which they are polled; `stack` closes them."""
    program = Program.from_json(order.program)
    specs = program.process(order.process).workers
    heartbeat.begin(STARTING, in_env=any(spec.steps_env for spec in specs))
    life = order.life
    if order.checkpoint >= 0:
        life.start = _checkpoint(CheckpointStore(Path(order.checkpoints)), order.checkpoint)
    context = Context(
        program, Plans(program), streams, life, heartbeat, parse_faults(order.faults, events_of(program)),
        supervised=True, checkpoints=Path(order.checkpoints) if order.checkpoints else None,
    )  # fmt: skip
    workers = [stack.enter_context(closing(spec.build(context))) for spec in specs]
    heartbeat.rest()
    return workers


def _checkpoint(store: CheckpointStore, version: int) -> Checkpoint:
    """That version, or the newest: the run goes on meanwhile, and removes what is old."""
    try:
        return store.load(version)
    except InputError:
        return store.latest()


def events_of(program: Program) -> dict[str, tuple[str, ...]]:
    """Kind -> what can be counted for faults on order."""
    return {spec.kind: spec.events for spec in program.workers}


def poll_workers(
    workers: list[Worker], control: ControlEnd, waiter: Waiter, orders: OrderReader, heartbeat: Heartbeat
) -> None:
    """Obey and poll in turn, and say what was done, until told to stop."""
    outbox, stopped = Outbox(control), False

    def sweep() -> bool:
        nonlocal stopped
        worked = False
        heartbeat.rest()
        for to, order in orders.take() if orders.waiting else ():
            worked = True
            stopped |= isinstance(order, Stop)
            for worker in workers:
                if to in ("", worker.name):
                    _obey(worker, order, outbox)
        for worker in workers if not stopped else ():
            said = worker.poll(0.0)
            worked |= bool(said)
            for message in said:
                outbox.put(message)
        return worked

    looked = 0.0
    while not stopped:
        waiter.wait_until(sweep, POLL)
        now = time.monotonic()
        if now - looked >= POLL:
            looked = now
            outbox.flush()


def _obey(worker: Worker, order: Order, outbox: Outbox) -> None:
    """Every worker answers `Save`, whether it knows the order or not."""
    said = worker.handle(order)
    if isinstance(order, Save) and not any(isinstance(message, Saved) for message in said):
        said = [*said, Saved(worker.name, order.request, to_bytes(worker.state(order.round)))]
    for message in said:
        outbox.put(message)


class Outbox:
    """Sends what matters at once; numbers alone wait for company."""

    def __init__(self, control: ControlEnd) -> None:
        self._control = control
        self._metrics: dict[str, Metric] = {}
        self._sent = 0.0

    def put(self, message: Message) -> None:
        """Take over one message."""
        if not isinstance(message, Numbers):
            self._control.send(message)
            return
        merge_into(self._metrics, message.metrics)
        if time.monotonic() - self._sent >= QUIET:
            self.flush()

    def flush(self) -> None:
        """Send the numbers that wait."""
        if self._metrics:
            self._control.send(Numbers(self._metrics))
            self._metrics = {}
        self._sent = time.monotonic()


def die_with(*others: int) -> None:
    """End with the first of these processes, however it ends, and take along what environments have started.

    So a thread waits for that: a signal of the kernel's would leave no time to do so.
    """
    handles = [os.pidfd_open(other) for other in others]

    def watch() -> None:
        select.select(handles, [], [])
        kill_below(os.getpid())
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
