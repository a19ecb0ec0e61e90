"""A Ray actor that runs the workers of one process. It dies with its agent, and Ray starts it again."""

from __future__ import annotations

import os
from pathlib import Path

import ray
import torch

from shoal.base.descendants import adopt_orphans, lead_group
from shoal.base.files import private_folder
from shoal.launchers.process import STARTING, ProcessOrder, die_with, work
from shoal.monitoring.logs import log_to
from shoal.streams.primitives import AbandonedError
from shoal.streams.transports.ray.reports import report_to
from shoal.streams.transports.ray.specs import AgentFacts
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard


class RayProcess:
    """One process. Its methods run one after the other."""

    def where(self) -> tuple[str, int]:
        """The machine and the process."""
        return ray.get_runtime_context().get_node_id(), os.getpid()

    def serve(self, order: ProcessOrder, agent: AgentFacts) -> None:
        """Run the workers until told to stop. What goes wrong is said, and ends the process: a new life begins in a new one."""
        adopt_orphans()
        lead_group()  # the agent ends it, should Ray kill us
        die_with(agent.pid, os.getppid())
        torch.set_num_threads(1)
        HeartbeatBoard.attach(agent.heartbeats).place(order.number).begin(STARTING, in_env=False)
        control = report_to(agent.socket, agent.key, order.number, order.life.incarnation)
        with log_to(_logs(order.logs), order.process):
            try:
                work(order, control)
            except AbandonedError:
                return
            except BaseException:
                os._exit(1)


def _logs(path: str) -> Path:
    """The run folder's, where it can be reached from this machine."""
    return Path(path) if Path(path).parent.is_dir() else private_folder("shoal-logs")
