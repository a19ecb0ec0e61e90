"""The local launcher: workers in processes of their own, the controller in this one, shared memory between them.

Equal settings give equal weights under `inline` and `local`, bit for bit, in exact runs. A dead host is started again: an actor
loses its open fragments, a policy worker nothing, a trainer goes back to the last checkpoint.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import safetensors.torch
from torch import Tensor

from shoal.api.worker import Report
from shoal.base.errors import ShoalError
from shoal.base.faults import VARIABLE, parse_faults
from shoal.checkpoints.store import Checkpoint, CheckpointStore
from shoal.launchers.build import Life, first_life
from shoal.launchers.host import HostOrder, serve
from shoal.launchers.hosts import Host, hosts_of
from shoal.launchers.interrupts import Interrupts
from shoal.launchers.program import Program
from shoal.launchers.pulse import PulseBoard
from shoal.launchers.shared_streams import SharedStreams, settle_in
from shoal.launchers.supervisor import Death, Link, Supervisor
from shoal.launchers.wiring import plan_wiring
from shoal.monitoring.run_folder import RunFolder
from shoal.streams.leave import LeaveGiver
from shoal.streams.sample import Account, account
from shoal.workers.controller import Controller
from shoal.workers.trainer import load_policy

POLL = 0.1
"""Seconds between two looks at signals and clocks."""
REST = 30.0
"""Seconds without any progress in which a trainer has to come to rest, or to hand in its state."""

STUCK = 20.0
"""Seconds of silence after which it is asked whether anybody can go on."""

Replica = tuple[str, int]
"""Policy and rank."""


class LocalLauncher:
    """Owns the shared memory and the processes of a run on one machine."""

    def __init__(self, program: Program, start: Checkpoint | None, folder: RunFolder) -> None:
        self._program, self._folder = program, folder
        parse_faults(os.environ.get(VARIABLE, ""))
        if start is not None:
            _load(program, start)
        hosts = hosts_of(program)
        wiring = plan_wiring(program, hosts)
        self._streams = SharedStreams(wiring, hosts)
        self._pulses = PulseBoard.create(len(hosts))
        self.mailboxes = {name: self._streams.mailbox(f"version/{name}") for name in program.policies}
        self._samples = [self._streams.ring(name) for name in wiring.rings if name.startswith("sample/")]
        speaking = range(program.trainers if program.hogwild else 1)
        self._replicas = [(policy, rank) for policy in program.policies for rank in speaking]
        self._leaves = {r: LeaveGiver(self._streams.mailbox(f"leave/{r[0]}/{r[1]}")) for r in self._replicas}
        self._made = dict.fromkeys(self._replicas, 0)
        self._resting: dict[Replica, int] = {}
        self._inbox: deque[Report] = deque()
        self._early: list[Report] = []
        self._heard_at = time.monotonic()
        self._posted: Counter[tuple[int, str]] = Counter()
        self._states: dict[str, bytes] = {}
        self._checkpoint = start.version if start and not program.hogwild else -1
        self._fill_shared(start)
        self._supervisor = Supervisor(serve, self._order, folder.logs)
        life = replace(first_life(program, start), start=None)  # they read it themselves
        try:
            for number, host in enumerate(hosts):
                self._supervisor.start(host, number, life)
        except BaseException:
            self.close()
            raise

    def _fill_shared(self, start: Checkpoint | None) -> None:
        """Hogwild replicas find their parameters in shared memory, and leave them there when they die."""
        for name, shared in self._streams.shared.items():
            settle_in(shared, self._program.policies[name.removeprefix("version/")].algorithm, fill=True)
            shared.publish(start.version if start else 0, shared.block)

    def _order(self, host: Host, number: int, life: Life) -> HostOrder:
        return HostOrder(
            os.getpid(), self._program.experiment.model_dump(), host, number, self._streams.handles(host),
            self._pulses.handle, life, str(self._folder.checkpoints), self._checkpoint, str(self._folder.logs),
            os.environ.get(VARIABLE, ""),
        )  # fmt: skip

    # ------------------------------------------------------------ the run

    def run(self, controller: Controller) -> str | None:
        """Hear what the workers did until there is a reason to stop; the signal that ended it, if one did."""
        self._controller = controller
        with Interrupts() as interrupts:
            while controller.reason is None:
                self._pump()
                while self._inbox and controller.reason is None:
                    controller.receive(self._inbox.popleft())
                    self._release()
                controller.listen()
                self._release()
                if interrupts.caught:
                    controller.stop(f"interrupted by {interrupts.caught}")
            return interrupts.caught

    def _pump(self) -> bool:
        """Wait for news, take it in, see to the dead. Whether there was progress."""
        self._supervisor.wait(POLL, *self._controller.doors)
        heard = list(self._supervisor.heard())
        for link, report in heard:
            self._posted.update({(link.number, policy): count for policy, count in report.posted.items()})
            self._note(report)
        for death in list(self._supervisor.deaths(self._pulses, self._program.experiment.env.timeout)):
            if not death.over:
                self._revive(death)
        self._see_to_progress(bool(heard))
        self._inbox += [report for report in self._early if self._actors_spoke(report)]
        self._early = [report for report in self._early if not self._actors_spoke(report)]
        return any(report.steps or report.version is not None for _, report in heard)

    def _see_to_progress(self, heard: bool) -> None:
        """Policies that learn at different paces may come to wait for each other's actors: that must not look like a slow run."""
        if heard or self._controller.paused or len(self._program.policies) == 1:
            self._heard_at = time.monotonic()
        elif time.monotonic() - self._heard_at > STUCK and self._all_hunger():
            raise ShoalError(
                "no worker can go on: policies whose agents act at different paces wait for each other's actors; "
                "use placement.actors = 1 and placement.ring = 1"
            )

    def _all_hunger(self) -> bool:
        """Nobody is at its worlds, and no policy has a whole round to learn from."""
        if any(self._pulses.away(link.number) for link in self._supervisor.links):
            return False
        began = self._supervisor.links[0].life.version
        return all(
            any(
                self._streams.ring(f"sample/{p}/{policy}").posted <= self._controller.version_of(policy) - began
                for p in range(self._program.producers)
            )
            for policy in self._program.policies
        )

    def _actors_spoke(self, update: Report) -> bool:
        """In exact runs an update is judged by all episodes that are behind it: actors may be slower to speak than trainers."""
        assert update.version is not None
        for link in self._supervisor.links:
            rounds = update.version - link.life.version
            producers = self._program.experiment.placement.ring * sum(job.kind == "actor" for job in link.host.jobs)
            if not link.life.incarnation and self._posted[link.number, update.policy] < rounds * producers:
                return False
        return True

    def _note(self, report: Report) -> None:
        if report.state is not None:
            self._states[report.policy] = report.state
            return
        if report.version is not None:
            replica = (report.policy, report.replica)
            self._made[replica] += 1
            self._resting[replica] = report.version
            if self._program.exact:
                self._early.append(report)
                return
        self._inbox.append(report)

    def _release(self) -> None:
        """Let trainers go on whose update the controller has seen, once every policy has made it.

        Not if a policy is behind because its agents act less often: it may need more steps, for which the others must go on.
        """
        if self._controller.paused or self._controller.reason is not None:
            return
        free = self._program.hogwild or (len(self._program.policies) > 1 and self._somebody_hungers())
        for replica, version in list(self._resting.items()):
            if free or self._controller.counters.update >= version:
                del self._resting[replica]
                self._leaves[replica].grant(self._made[replica])

    def _somebody_hungers(self) -> bool:
        """A policy that is behind has no whole round to learn from."""
        began, update = self._supervisor.links[0].life.version, self._controller.counters.update
        for policy in self._program.policies:
            rounds = self._controller.version_of(policy) - began
            behind = self._controller.version_of(policy) == update
            rings = [self._streams.ring(f"sample/{p}/{policy}") for p in range(self._program.producers)]
            if behind and any(ring.posted <= rounds for ring in rings):
                return True
        return False

    # ------------------------------------------------------------ what a run asks for

    def quiet(self) -> None:
        """Until every trainer rests: what is judged or saved then is one version."""
        self._until(lambda: len(self._resting) == len(self._replicas), "come to rest")

    def states(self) -> dict[str, Tensor]:
        """All that a checkpoint keeps, as `policy/name`, handed in by the first replica of each trainer."""
        self._states = {}
        asked: dict[str, int] = {}

        def all_there() -> bool:
            for policy in self._program.policies:
                life = self._trainer_link(0).life.incarnation
                if policy not in self._states and asked.get(policy) != life:  # a new life heard nothing of it
                    asked[policy] = life
                    self._leaves[policy, 0].ask_state()
            return len(self._states) == len(asked)

        self._until(all_there, "hand in their state")
        self._hear_last_updates()
        parts = {policy: safetensors.torch.load(state) for policy, state in self._states.items()}
        return {f"{policy}/{name}": tensor for policy, part in parts.items() for name, tensor in part.items()}

    def _until(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + REST
        while not done():
            if time.monotonic() > deadline:
                raise ShoalError(f"the trainers did not {what} within {REST:.0f} s: see {self._folder.logs}")
            if self._pump():  # one that is not at rest yet may wait for worlds that are slow
                deadline = time.monotonic() + REST

    def _hear_last_updates(self) -> None:
        """A run that was told to stop in the middle of an update is saved after it."""
        if self._controller.reason is not None:
            while self._inbox:
                self._controller.receive(self._inbox.popleft())

    def accounts(self) -> Account:
        """What became of all rows."""
        return sum(map(account, self._samples[1:]), account(self._samples[0]))

    def workers(self) -> list[dict[str, Any]]:
        """Who works where, for the panel."""
        return self._supervisor.workers()

    # ------------------------------------------------------------ deaths

    def _revive(self, death: Death) -> None:
        """A new life for a dead host; replicas in step go down and come back together."""
        self._supervisor.count_death(death)
        self._controller.restarted(death.link.host.name, death.cause)
        links = self._fate(death.link)
        for link in links:
            if link is not death.link:
                link.process.kill()
            self._supervisor.bury(link)
            self._pulses.clear(link.number)
        changes: dict[str, Any] = {}
        if any(link.host.has("trainer") for link in links):
            ranks = sorted({job.number for link in links for job in link.host.jobs if job.kind == "trainer"})
            changes = self._where_to_go_on(ranks)
            self._start_again(ranks)
        for link in links:
            self._supervisor.restart(link, replace(link.life, incarnation=link.life.incarnation + 1, **changes))

    def _fate(self, link: Link) -> list[Link]:
        if not link.host.has("trainer") or self._program.hogwild:
            return [link]
        return [other for other in self._supervisor.links if other.host.has("trainer")]

    def _start_again(self, ranks: list[int]) -> None:
        for policy, rank in self._replicas:
            if rank in ranks:
                self._made[policy, rank] = 0
                self._resting[policy, rank] = (
                    0  # it rests until it is released: nobody trains in a paused or ending run
                )
                self._leaves[policy, rank].renew()
        for tally in self._streams.tallies.values():
            tally.renew()

    def _where_to_go_on(self, ranks: list[int]) -> dict[str, Any]:
        """From the last checkpoint, as the version after all those that are out; hogwild replicas from what they share."""
        program, store = self._program, CheckpointStore(self._folder.checkpoints)
        if store.versions() and not program.hogwild:
            self._checkpoint = store.latest().version
        producers = [producer for rank in ranks for producer in program.producers_of(rank)]
        rounds, versions = {}, {}
        for policy in program.policies:
            rounds[policy] = max(self._streams.ring(f"sample/{producer}/{policy}").taken for producer in producers)
            out, began = self.mailboxes[policy].latest(), self._supervisor.links[0].life.version
            versions[policy] = began + rounds[policy] if program.exact else out + (not program.hogwild)
        steps = max(self._controller.steps_of(ranks), self._trainer_link(ranks[0]).life.steps)
        return {"rounds": rounds, "versions": versions, "steps": steps}

    def _trainer_link(self, rank: int) -> Link:
        return self._supervisor.links[rank]  # trainers come first

    def close(self) -> None:
        """Stop the hosts, kill those that do not, free the memory."""
        for tally in self._streams.tallies.values():
            tally.abandon()
        self._supervisor.close()
        self._streams.close()
        self._pulses.close()


def _load(program: Program, start: Checkpoint) -> None:
    """Trainers load the checkpoint themselves; but one that does not fit must show before anything is written or started."""
    for policy, plan in program.policies.items():
        load_policy(plan.algorithm, start.tensors, policy)
