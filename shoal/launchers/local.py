"""The local launcher: workers in processes of their own, the controller in this one, shared memory between them."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace

from shoal.api.program import Process, Program, SharedStream
from shoal.base.faults import VARIABLE, parse_faults
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.launchers.launcher import RunFiles
from shoal.launchers.life import first_life
from shoal.launchers.process import ProcessOrder, events_of, serve
from shoal.launchers.process_launcher import ProcessLauncher
from shoal.launchers.supervisor import Supervisor
from shoal.rollout.plans import Plans, load_policy
from shoal.streams import names
from shoal.streams.shared_streams import SharedStreams
from shoal.workers.context import Life
from shoal.workers.replica_sync import fill_shared


class LocalLauncher(ProcessLauncher):
    """Owns the shared memory and the processes of a run on one machine."""

    def __init__(self, program: Program, start: Checkpoint | None, files: RunFiles) -> None:
        parse_faults(os.environ.get(VARIABLE, ""), events_of(program))
        plans = Plans(program)
        check_fit(plans, start)
        self._cores = cores_of(program)
        self._json = program.to_json()
        self._memory = SharedStreams(program)
        self._processes = Supervisor(serve, self._order, files.logs, len(program.processes))
        life = first_life(program, start)
        super().__init__(program, life, files, self._memory, self._processes)
        self._fill_shared(plans, life)
        life = replace(life, start=None)  # they read it themselves
        try:
            for number, process in enumerate(program.processes):
                self._processes.start(process, number, life)
        except BaseException:
            self.close()
            raise

    def _fill_shared(self, plans: Plans, life: Life) -> None:
        """Replicas that share memory find their parameters there, and leave them there when they die."""
        for policy in plans:
            name = names.version(policy)
            if isinstance(self._program.streams[name], SharedStream):
                shared = self._memory.shared(name)
                assert shared is not None
                fill_shared(self._memory, policy, plans[policy].algorithm, fill=True)
                shared.publish(life.starts[policy], shared.block)

    def _order(self, process: Process, number: int, life: Life) -> ProcessOrder:
        return ProcessOrder(
            os.getpid(), self._json, process.name, number, self._memory.handles(process.name),
            self._processes.heartbeats, life, str(self._files.checkpoints),
            self.begins_from(), str(self._files.logs),
            os.environ.get(VARIABLE, ""), self._cores[number],
        )  # fmt: skip


def cores_of(program: Program) -> list[tuple[int, ...]]:
    """The cores that each process keeps to, one for each of its threads, by `placement.pin`; none: whichever are free.

    Busy processes that are as many as the cores share one now and then if the kernel places them, while another core idles.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    requested, busy = program.experiment.placement.pin, [process for process in program.processes if process.pinned]
    fits = len(cores) == sum(process.threads for process in busy) and len(busy) > 1
    if not (fits and not program.experiment.env.background if requested is None else requested and cores):
        return [() for _ in program.processes]
    turn = itertools.cycle(cores)
    return [
        tuple(sorted(set(itertools.islice(turn, process.threads)))) if process.pinned else ()
        for process in program.processes
    ]


def check_fit(plans: Plans, start: Checkpoint | None) -> None:
    """Trainers load the checkpoint themselves; but one that does not fit must show before anything is written or started."""
    if start is None:
        return
    for policy, plan in plans.items():
        load_policy(plan.algorithm, start.tensors, policy)
