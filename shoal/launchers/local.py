"""The local launcher: workers in processes of their own, the controller in this one, shared memory between them."""

from __future__ import annotations

import os
from dataclasses import replace

from shoal.algorithms.agreement import settle_in
from shoal.base.faults import VARIABLE, parse_faults
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.launchers.host import HostOrder, serve
from shoal.launchers.processes import ProcessLauncher
from shoal.launchers.supervisor import Supervisor
from shoal.monitoring.run_folder import RunFolder
from shoal.program.build import Life, first_life
from shoal.program.hosts import Host, hosts_of
from shoal.program.program import Program
from shoal.program.wiring import plan_wiring
from shoal.streams.shared_streams import SharedStreams
from shoal.workers.trainer import load_policy


class LocalLauncher(ProcessLauncher):
    """Owns the shared memory and the processes of a run on one machine."""

    def __init__(self, program: Program, start: Checkpoint | None, folder: RunFolder) -> None:
        parse_faults(os.environ.get(VARIABLE, ""))
        if start is not None:
            check_fit(program, start)
        hosts = hosts_of(program)
        training = [host for host in hosts if not host.has("evaluation")]
        self._cores = [*cores_of(program, len(training)), *[None] * (len(hosts) - len(training))]
        self._memory = SharedStreams(plan_wiring(program, hosts), [host.name for host in hosts])
        self._processes = Supervisor(serve, self._order, folder.logs, len(hosts))
        super().__init__(program, start, folder, self._memory, self._processes)
        self._fill_shared(start)
        life = replace(first_life(program, start), start=None)  # they read it themselves
        self.goes_on = life.whole
        try:
            for number, host in enumerate(hosts):
                self._processes.start(host, number, life)
        except BaseException:
            self.close()
            raise

    def _fill_shared(self, start: Checkpoint | None) -> None:
        """Hogwild replicas find their parameters in shared memory, and leave them there when they die."""
        for policy, plan in self._program.policies.items():
            if (shared := self._memory.shared(f"version/{policy}")) is not None:
                settle_in(shared, plan.algorithm, fill=True)
                shared.publish(start.version if start else 0, shared.block)

    def _order(self, host: Host, number: int, life: Life) -> HostOrder:
        return HostOrder(
            os.getpid(), self._program.experiment.model_dump(), host, number, self._memory.handles(host.name),
            self._processes.pulses, life, str(self._folder.checkpoints), self.checkpoint, str(self._folder.logs),
            os.environ.get(VARIABLE, ""), self._cores[number],
        )  # fmt: skip


def cores_of(program: Program, hosts: int) -> list[int | None]:
    """The core that each host keeps to, by `placement.pin`; None: whichever is free.

    Busy processes that are as many as the cores share one now and then if the kernel places them, while another core idles.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    asked = program.experiment.placement.pin
    fits = len(cores) == hosts > 1 and not program.experiment.env.background
    if not (fits if asked is None else asked and cores):
        return [None] * hosts
    return [cores[number % len(cores)] for number in range(hosts)]


def check_fit(program: Program, start: Checkpoint) -> None:
    """Trainers load the checkpoint themselves; but one that does not fit must show before anything is written or started."""
    for policy, plan in program.policies.items():
        load_policy(plan.algorithm, start.tensors, policy)
