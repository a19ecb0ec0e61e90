"""What runs in an actor's process: attach to the streams, poll the actor, report, obey."""

from __future__ import annotations

import os
import select
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from shoal.api.experiment import Experiment
from shoal.launchers.build import Life, build_actor
from shoal.launchers.program import expand
from shoal.monitoring.logs import log_to
from shoal.streams.control import STOP, ControlEnd
from shoal.streams.transports.shm.mailbox import MailboxHandle, ShmMailbox
from shoal.streams.transports.shm.ring import RingHandle, ShmRing
from shoal.workers.actor import ActorWorker

POLL = 0.2
"""Seconds an actor waits for a free slot before it looks for orders."""


class ActorOrder(NamedTuple):
    """Everything an actor's process needs to know."""

    launcher: int
    """Its process."""
    settings: dict[str, Any]
    """The resolved experiment."""
    number: int
    """Which actor, from 0."""
    rings: dict[str, RingHandle]
    mailboxes: dict[str, MailboxHandle]
    life: Life
    logs: str


def serve_actor(order: ActorOrder, connection: Connection) -> None:
    """Run one actor until it is told to stop or its launcher is gone."""
    _die_with(order.launcher)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the launcher decides what it means
    torch.set_num_threads(1)
    control = ControlEnd(connection)
    with log_to(Path(order.logs), f"actor-{order.number}"):
        try:
            _serve(_build(order), control)
        except BaseException as error:
            control.fail(error)
            raise


def _build(order: ActorOrder) -> ActorWorker:
    program = expand(Experiment.parse(order.settings))
    rings = {name: ShmRing.attach(handle, incarnation=order.life.incarnation) for name, handle in order.rings.items()}
    mailboxes = {name: ShmMailbox.attach(handle) for name, handle in order.mailboxes.items()}
    return build_actor(program, order.number, dict(rings), dict(mailboxes), order.life)


def _serve(actor: ActorWorker, control: ControlEnd) -> None:
    while control.take() != STOP:
        report = actor.poll(POLL)
        if report.worked:
            control.report(report)
    actor.close()


def _die_with(launcher: int) -> None:
    """End with the launcher, however it ends. It is no parent of ours, the fork server is: so a thread waits for its death."""
    handle = os.pidfd_open(launcher)

    def watch() -> None:
        select.select([handle], [], [])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
