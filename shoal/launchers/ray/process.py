"""What runs in a process on a machine of many: as on one machine, but its streams are its agent's, and so are those it tells."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, NamedTuple

import torch

from shoal.base.descendants import lead_group
from shoal.base.files import private_folder
from shoal.launchers.forkserver import leave_server
from shoal.launchers.process import STARTING, ProcessOrder, die_with, work
from shoal.monitoring.logs import log_to
from shoal.streams.primitives import AbandonedError
from shoal.streams.transports.ray.gloo import Invited, Meeting
from shoal.streams.transports.ray.reports import report_to
from shoal.streams.transports.ray.specs import AgentFacts
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard


class Posting(NamedTuple):
    """Everything that a process is told, packed as Ray packs what it carries; its holder passes it on unread."""

    order: ProcessOrder
    agent: AgentFacts
    meetings: dict[str, Meeting]
    """Of the tallies that have ranks on other machines."""


class _ByHolder(NamedTuple):
    """The way to a MeetingPoint: the holder asks it."""

    line: Connection
    point: str

    def set(self, meeting: int, key: str, value: bytes) -> None:
        self._ask("set", meeting, key, value)

    def get(self, meeting: int, key: str, timeout: float) -> bytes | None:
        return self._ask("get", meeting, key, timeout)

    def _ask(self, method: str, *args: Any) -> Any:
        try:
            self.line.send((self.point, method, args))
            return self.line.recv()
        except (EOFError, OSError) as error:
            raise AbandonedError("nobody waits at the meeting point any more") from error


def live(posting: bytes, line: Connection, address: str) -> None:
    """Run the workers until told to stop. What goes wrong is said, and ends the process: a new life begins in a new one."""
    order, agent, meetings = ForkingPickler.loads(posting)
    leave_server()
    lead_group()  # the agent ends it, should the holder die
    die_with(agent.pid, os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGHUP})
    torch.set_num_threads(1)
    joined = {name: Invited(meeting, _ByHolder(line, meeting.point), address) for name, meeting in meetings.items()}
    streams = order.streams._replace(tallies={**order.streams.tallies, **joined})
    HeartbeatBoard.attach(agent.heartbeats).place(order.number).begin(STARTING, in_env=False)
    control = report_to(agent.socket, agent.key, order.number, order.life.incarnation)
    with log_to(_logs(order.logs), order.process):
        try:
            work(order._replace(streams=streams), control)
        except AbandonedError:
            return
        except BaseException:
            os._exit(1)


def _logs(path: str) -> Path:
    """The run folder's, where it can be reached from this machine."""
    return Path(path) if Path(path).parent.is_dir() else private_folder("shoal-logs")
