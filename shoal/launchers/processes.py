"""Workers in processes of their own, whoever runs those: the half that `local` and `ray` share.

Equal settings give equal weights under every launcher, bit for bit, in exact runs. A dead host is started again: an actor loses its
open fragments, a policy worker nothing, a buffer worker its shard, an evaluation worker what it played of its version; a trainer
goes back to the last checkpoint.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import safetensors.torch
from torch import Tensor

from shoal.api.worker import Report
from shoal.base.errors import ShoalError
from shoal.checkpoints.checkpoint import Checkpoint, stage_of
from shoal.checkpoints.store import CheckpointStore
from shoal.launchers.hosting import HostStreams, Supervision
from shoal.launchers.interrupts import Interrupts
from shoal.launchers.links import Death, Link, count_death
from shoal.launchers.updates import Updates
from shoal.monitoring.run_folder import RunFolder
from shoal.program.contents import BEFORE, CONTENTS, older_versions, saves_contents
from shoal.program.program import Program
from shoal.program.stages import STAGE, say_stage
from shoal.streams.leave import LeaveGiver
from shoal.streams.sample import Account
from shoal.workers.controller import Controller

POLL = 0.1
"""Seconds between two looks at signals and clocks."""
REST = 120.0
"""Seconds without any progress in which a trainer has to come to rest, or to hand in its state."""

STUCK = 20.0
"""Seconds of silence after which it is asked whether anybody can go on."""

Replica = tuple[str, int]
"""Policy and rank."""


class ProcessLauncher:
    """Hears the hosts of a run, gives their trainers leave to go on, and sees to the dead."""

    def __init__(
        self,
        program: Program,
        start: Checkpoint | None,
        folder: RunFolder,
        streams: HostStreams,
        supervisor: Supervision,
    ) -> None:
        self._program, self._folder, self._streams, self._supervisor = program, folder, streams, supervisor
        self.mailboxes = {name: streams.mailbox(f"version/{name}") for name in program.policies}
        speaking = range(program.trainers if program.hogwild else 1)
        self._replicas = [(policy, rank) for policy in program.policies for rank in speaking]
        self._leaves = {r: LeaveGiver(streams.mailbox(f"leave/{r[0]}/{r[1]}")) for r in self._replicas}
        self._made = dict.fromkeys(self._replicas, 0)
        self._resting: dict[Replica, int] = {}
        self._inbox: deque[Report] = deque()
        self._updates = Updates(program.policies, 1 if program.hogwild else program.trainers)
        self._in_order = program.exact or (program.trainers > 1 and not program.hogwild)
        self._newest = dict.fromkeys(program.policies, start.version if start else 0)
        self._heard_at = time.monotonic()
        self._rounds: dict[int, int] = {}
        """Producer -> the round that it is in."""
        self._states: dict[str, bytes] = {}
        self.goes_on: bool | None = None
        self.enter_stage(stage_of(start))
        self._contents: dict[str, bytes] = {}
        self.checkpoint = start.version if start and not program.hogwild else -1
        """The version that a trainer's next life goes on from; -1: from none."""

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
        for _, report in heard:
            self._note(report)
        for death in list(self._supervisor.deaths(self._program.experiment.env.timeout)):
            if not death.over:
                self._revive(death)
        self._see_to_progress(bool(heard))
        self._inbox += self._updates.take(self._actors_spoke)
        return any(report.steps or report.version is not None for _, report in heard)

    def _see_to_progress(self, heard: bool) -> None:
        """Policies that learn at different paces may come to wait for each other's actors: that must not look like a slow run."""
        alone = len(self._program.policies) == 1 or self._program.buffers
        if heard or self._controller.paused or alone:
            self._heard_at = time.monotonic()
        elif time.monotonic() - self._heard_at > STUCK and self._all_hunger():
            raise ShoalError(
                "no worker can go on: policies whose agents act at different paces wait for each other's actors; "
                "use placement.actors = 1 and placement.ring = 1"
            )

    def _all_hunger(self) -> bool:
        """Nobody is at its worlds, and no policy has a whole round to learn from."""
        if any(self._supervisor.away(link) for link in self._supervisor.links):
            return False
        began = self._supervisor.links[0].life.version
        return all(
            any(
                self._streams.counters(f"sample/{p}/{policy}").posted <= self._newest[policy] - began
                for p in range(self._program.producers)
            )
            for policy in self._program.policies
        )

    def _actors_spoke(self, version: int) -> bool:
        """In exact runs an update is judged by all episodes that are behind it: actors may be slower to speak than trainers."""
        ring = self._program.experiment.placement.ring
        return not self._program.exact or all(
            self._rounds.get(producer, link.life.version) >= version
            for link in self._supervisor.links
            if not link.life.incarnation
            for job in link.host.jobs
            if job.kind == "actor"
            for producer in range(job.number * ring, (job.number + 1) * ring)
        )

    def _note(self, report: Report) -> None:
        if report.state is not None:
            self._states[report.policy] = report.state
            return
        if report.contents:
            if report.asked == self._streams.mailbox(CONTENTS).latest():
                self._contents |= report.contents
            return
        self._rounds |= report.rounds
        if report.version is not None:
            replica = (report.policy, report.replica)
            self._newest[report.policy] = report.version
            if replica in self._made:
                self._made[replica] += 1
                self._resting[replica] = report.version
            if self._in_order:
                self._updates.add(report)
                return
        self._inbox.append(report)

    def _release(self) -> None:
        """Let trainers go on whose update the controller has seen, once every policy has made it.

        Not if a policy is behind because its agents act less often: it may need more steps, for which the others must go on. Where
        buffer workers replay, each policy goes at the pace of its own rows.
        """
        if self._controller.paused or self._controller.reason is not None:
            return
        free = (
            self._program.hogwild
            or self._program.buffers
            or (len(self._program.policies) > 1 and self._somebody_hungers())
        )
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
            rings = [self._streams.counters(f"sample/{p}/{policy}") for p in range(self._program.producers)]
            if behind and any(ring.posted <= rounds for ring in rings):
                return True
        return False

    # ------------------------------------------------------------ what a run asks for

    def evaluate(self, version: int) -> None:
        """A version is saved, and due to be judged."""
        self._streams.mailbox("evaluate").publish(version, np.zeros(1, np.uint8))

    def judge(self, controller: Controller, done: Callable[[], bool]) -> None:
        """Let the evaluation worker go on, and nobody else, until it is `done`; a signal ends it."""
        with Interrupts() as interrupts:
            while not (done() or interrupts.caught):
                self._pump()
                while self._inbox:
                    controller.receive(self._inbox.popleft())
                controller.listen()

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

    def contents(self, version: int) -> dict[str, bytes]:
        """Of all workers. Those who died since do not know how the round began, and have nothing to give."""
        self._contents = {}
        if not saves_contents(self._program):
            return {}
        lives: list[int] = []

        def all_there() -> bool:
            links = [link for link in self._supervisor.links if not link.host.has("evaluation")]
            now = [link.life.incarnation for link in links]
            if now != lives:  # a new life heard nothing of it
                lives[:] = now
                self._contents.clear()
                asked = self._streams.mailbox(CONTENTS)
                asked.publish(asked.latest() + 1, np.array([version]).view(np.uint8))
            return all(job.name in self._contents for link in links for job in link.host.jobs)

        self._until(all_there, "say what they hold", "workers")
        return {**self._contents, BEFORE: older_versions(self._program, self.mailboxes, version)}

    def _until(self, done: Callable[[], bool], what: str, who: str = "trainers") -> None:
        deadline = time.monotonic() + REST
        while not done():
            if time.monotonic() > deadline:
                raise ShoalError(f"the {who} did not {what} within {REST:.0f} s: see {self._folder.logs}")
            if self._pump():  # one that is not at rest yet may wait for worlds that are slow
                deadline = time.monotonic() + REST

    def _hear_last_updates(self) -> None:
        """A run that was told to stop in the middle of an update is saved after it, once all have told of it."""
        if self._controller.reason is not None:
            self._until(lambda: not self._updates.due, "tell of the last update", "workers")
            self._inbox += self._updates.rest()
            while self._inbox:
                self._controller.receive(self._inbox.popleft())

    def enter_stage(self, stage: int) -> None:
        """Tell actors which stage of the curriculum the run is in."""
        if self._program.experiment.curriculum:
            say_stage(self._streams.mailbox(STAGE), stage)

    def accounts(self) -> Account:
        """What became of all rows."""
        return self._streams.accounts()

    def workers(self) -> list[dict[str, Any]]:
        """Who works where, for the panel."""
        return self._supervisor.workers()

    # ------------------------------------------------------------ deaths

    def _revive(self, death: Death) -> None:
        """A new life for a dead host; replicas in step go down and come back together."""
        count_death(death)
        self._controller.restarted(death.link.host.name, death.cause)
        links = self._fate(death.link)
        for link in links:
            if link is not death.link:
                self._supervisor.kill(link)
            self._supervisor.bury(link)
        changes: dict[str, Any] = {}
        if any(link.host.has("trainer") for link in links):
            ranks = sorted({job.number for link in links for job in link.host.jobs if job.kind == "trainer"})
            self._updates.break_off()
            changes = self._where_to_go_on(ranks)
            self._start_again(ranks)
        if death.link.host.has("evaluation"):
            changes = {"judged": self._controller.scoreboard.judged}
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
            self.checkpoint = store.latest().version
        producers = [producer for rank in ranks for producer in program.producers_of(rank)]
        rounds, versions = {}, {}
        for policy in program.policies:
            taken = [self._streams.counters(f"sample/{producer}/{policy}").taken for producer in producers]
            out, began = self._out(policy), self._supervisor.links[0].life.version
            rounds[policy] = max(*taken, out - began) if program.exact else max(taken)
            versions[policy] = began + rounds[policy] if program.exact else out + (not program.hogwild)
        steps = max(self._controller.steps_of(ranks), self._trainer_link(ranks[0]).life.steps)
        return {"rounds": rounds, "versions": versions, "steps": steps}

    def _out(self, policy: str) -> int:
        """The newest version that anybody may act with."""
        return self.mailboxes[policy].latest()

    def _trainer_link(self, rank: int) -> Link:
        return self._supervisor.links[rank]  # trainers come first

    def close(self) -> None:
        """Stop the hosts, kill those that do not, free the memory."""
        for tally in self._streams.tallies.values():
            tally.abandon()
        self._supervisor.close()
        self._streams.close()
