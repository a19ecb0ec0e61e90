"""Workers in processes of their own, whoever runs those: the half that `local` and `ray` share.

Equal settings give equal weights under every launcher, bit for bit, in exact runs. A dead process is started again: an actor
loses its open fragments, a policy worker nothing, a buffer worker its shard, an evaluation worker what it played of its version;
a trainer the update in hand: what it had learned is in memory that outlives it (on a machine that is lost: in the last checkpoint).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import safetensors.torch

from shoal.api.messages import Episodes, Message, Saved, Updated
from shoal.api.orders import Order, Save, Stop
from shoal.api.program import Program
from shoal.base.errors import ShoalError
from shoal.checkpoints.store import CheckpointStore
from shoal.checkpoints.worker_state import BEFORE
from shoal.launchers.deadlock import Standing, flushes
from shoal.launchers.interrupts import Interrupts
from shoal.launchers.launcher import Conductor, HangsError, RunFiles, Snapshot
from shoal.launchers.life import older_versions, saves_state
from shoal.launchers.links import SILENT, Death, Limits, Link, count_death
from shoal.launchers.orders import OrderBook
from shoal.launchers.supervision import ProcessStreams, Supervision
from shoal.launchers.updates import Updates
from shoal.streams import names
from shoal.streams.gate import GateKeeper
from shoal.streams.sample import Account
from shoal.workers.actor import ActorSpec
from shoal.workers.context import Life
from shoal.workers.replica_sync import sync_class
from shoal.workers.trainer import TrainerSpec

POLL = 0.1
"""Seconds between two looks at signals and clocks."""
REST = 60.0
"""Seconds without any progress in which a trainer has to come to rest, on top of those after which it counts as hung."""
STARTS = 5.0
"""Seconds that a run which is to end waits for a process that is only starting."""

Replica = tuple[str, int]
"""Policy and rank."""


class ProcessLauncher:
    """Hears the processes of a run, opens the gates of their trainers, and sees to the dead."""

    def __init__(
        self, program: Program, life: Life, files: RunFiles, streams: ProcessStreams, supervisor: Supervision
    ) -> None:  # fmt: skip
        self._program, self._files, self._streams, self._supervisor = program, files, streams, supervisor
        self._sync, self._starts = sync_class(program), life.starts
        self._limits = Limits.of(program.experiment)
        self._interrupts = Interrupts()
        self.mailboxes = {name: streams.mailbox(names.version(name)) for name in program.learners}
        speaking = range(1 if self._sync.in_step else program.trainers)
        self._replicas = [(policy, rank) for policy in program.learners for rank in speaking]
        self._gates = {at: GateKeeper(streams.mailbox(names.gate(*at))) for at in self._replicas}
        self._orders = OrderBook(program, streams)
        self._made = dict.fromkeys(self._replicas, 0)
        self._resting: dict[Replica, int] = {}
        self._inbox: deque[Message] = deque()
        self._updates = Updates(program.learners, program.trainers if self._sync.in_step else 1)
        self._in_order = program.exact or (program.trainers > 1 and self._sync.in_step)
        self._rounds: dict[int, dict[str, int]] = {}
        """Producer -> policy -> the round that it is in."""
        self._flushed: dict[str, Standing] = {}
        self._saves = 0
        self._unanswered: dict[str, Save] = {}
        self._saved: dict[str, Saved] = {}
        self.goes_on: bool | None = life.whole
        self.checkpoint = life.start.version if life.start and not self._sync.one_machine else -1
        """The version that next lives go on from where memory is lost; -1: from none. Later ones replace it, and it is removed."""

    # ------------------------------------------------------------ the run

    def run(self, conductor: Conductor) -> str | None:
        """Hear what the workers did until there is a reason to stop; the signal that ended it, if one did."""
        self._conductor, controller = conductor, conductor.controller
        with self._interrupts as interrupts:
            while controller.reason is None:
                self._pump()
                while self._inbox and controller.reason is None:
                    conductor.receive(self._inbox.popleft())
                    self._release()
                conductor.listen()
                self._release()
                self._obey()
            return interrupts.caught

    def _obey(self) -> None:
        """Signals and the clock, whatever the workers do."""
        controller = self._conductor.controller
        if self._interrupts.caught:
            controller.stop(f"interrupted by {self._interrupts.caught}")
        controller.look()

    def _pump(self) -> bool:
        """Wait for news, take it in, see to the dead. Whether there was progress."""
        self._orders.flush()
        self._supervisor.wait(POLL, *self._conductor.doors)
        progress = False
        for _, message in self._supervisor.heard():
            progress |= isinstance(message, Updated) or (isinstance(message, Episodes) and message.steps > 0)
            self._take(message)
        for death in list(self._supervisor.deaths(self._limits)):
            if not death.over:
                self._revive(death)
        if len(self.mailboxes) > 1 and not self._program.buffers:
            self._flush()
        self._inbox += self._updates.take(self._actors_spoke)
        return progress

    def _take(self, message: Message) -> None:
        match message:
            case Saved():
                if message.request == self._saves:
                    self._unanswered.pop(message.worker, None)
                    self._saved[message.worker] = message
                return
            case Episodes():
                self._rounds |= message.rounds
            case Updated(policy, version, rank):
                replica = (policy, rank)
                if replica in self._made:
                    self._made[replica] += 1
                    self._resting[replica] = version
                if self._in_order:
                    self._updates.add(message)
                    return
        self._inbox.append(message)

    def _actors_spoke(self, policy: str, version: int) -> bool:
        """In exact runs an update is seen with all episodes that are behind it: actors may be slower to speak than trainers."""
        if not self._program.exact:
            return True
        first = [link for link in self._supervisor.links if not link.life.incarnation]
        actors = [spec for link in first for spec in link.process.workers if isinstance(spec, ActorSpec)]
        producers = [producer for spec in actors for producer in spec.producers(self._program)]
        return all(self._rounds.get(p, self._starts).get(policy, 0) >= version for p in producers)

    # ------------------------------------------------------------ gates

    def _release(self) -> None:
        """Open the gates of trainers whose update the controller has seen; in exact runs, once every policy has made it too.

        Not if a policy is behind because it lacks experience: for that the others must go on. Where replicas go their own way, or
        buffer workers replay, nobody waits for the controller. A policy that is through goes on without learning.
        """
        controller = self._conductor.controller
        if controller.paused or controller.reason is not None:
            return
        alone = not self._sync.in_step or bool(self._program.buffers)
        for replica, version in list(self._resting.items()):
            clock = controller.clocks[replica[0]]
            free = alone or clock.done
            seen, at_will = free or clock.version >= version, free or not self._program.exact
            if seen and (at_will or self._others_made(version) or self._somebody_starves()):
                del self._resting[replica]
                self._gates[replica].open(self._made[replica], drain=clock.done)

    def _others_made(self, version: int) -> bool:
        return all(clock.done or clock.version >= version for clock in self._conductor.controller.clocks.values())

    def _somebody_starves(self) -> bool:
        """A policy that is behind has no whole round to learn from."""
        clocks = self._conductor.controller.clocks
        least = min(clock.version for clock in clocks.values() if not clock.done)
        for policy, clock in clocks.items():
            if not clock.done and clock.version == least:
                rounds = clock.version - self._starts[policy]
                if any(self._counters(p, policy).posted <= rounds for p in range(self._program.producers)):
                    return True
        return False

    def _counters(self, producer: int, policy: str) -> Any:
        return self._streams.counters(names.sample(producer, policy))

    def _flush(self) -> None:
        """If policies wait for each other's actors: let fragments be posted that are not full."""
        if self._conductor.controller.paused or len(self._resting) == len(self._replicas):
            return
        if not flushes(self._program, self._standing(lambda policy: self.mailboxes[policy].latest())):
            return
        standing = self._standing(self._newest)  # asked where they are made: what was heard here may be late
        if standing == self._flushed:
            return
        self._flushed = standing
        for order in flushes(self._program, standing):
            self.order(self._actor_of(order.producer), order)

    def _standing(self, newest: Callable[[str], int]) -> dict[str, Standing]:
        """In exact runs by what actors have said, which is true of the end of a poll: in the middle of a step an actor may have
        posted for one policy and not yet for the other. An actor that waited then waits still, if its version is not out now."""
        found = {}
        for policy in self.mailboxes:
            producers, start = range(self._program.producers), self._starts[policy]
            if self._program.exact:
                posted = tuple(self._rounds.get(p, {}).get(policy, start) for p in producers)
                found[policy] = Standing(newest(policy), posted)
            else:
                rings = [self._counters(p, policy) for p in producers]
                posted = tuple(start + ring.posted for ring in rings)
                found[policy] = Standing(newest(policy), posted, tuple(ring.posted - ring.freed for ring in rings))
        return found

    def _actor_of(self, producer: int) -> str:
        specs = [spec for spec in self._program.workers if isinstance(spec, ActorSpec)]
        return next(spec.name for spec in specs if producer in spec.producers(self._program))

    # ------------------------------------------------------------ what a run asks for

    def order(self, to: str, order: Order) -> None:
        """Tell a worker, or all of a kind, something; an empty word: all workers."""
        self._orders.give(to, order)

    def publish(self, stream: str, version: int, block: Any) -> None:
        """Write into a mailbox that the controller writes."""
        self._streams.mailbox(stream).publish(version, block)

    def run_only(self, conductor: Conductor, kind: str, done: Callable[[], bool]) -> None:
        """Let the workers of one kind go on, and nobody else: the gates are closed, so only they have something to do."""
        self._conductor = conductor
        with self._interrupts as interrupts:
            while not (done() or interrupts.caught):
                self._pump()
                while self._inbox:
                    conductor.receive(self._inbox.popleft())
                conductor.listen()
                conductor.controller.look()

    def quiet(self) -> bool:
        """Until every trainer rests: what is evaluated or saved then is one version. False: the run is to end before that."""

        def done() -> bool:
            return len(self._resting) == len(self._replicas) or self._conductor.controller.reason is not None

        self._until(done, "the trainers did not come to rest")
        return len(self._resting) == len(self._replicas)

    def save(self, round_: int) -> Snapshot:
        """What all workers hold. Those who died since do not know how the round began, and have nothing to give."""
        for gate in self._gates.values() if self._reason else ():  # an update after the answer is not saved
            gate.close()
        self._saves += 1
        self._saved = {}
        whole = saves_state(self._program)
        specs = [spec for spec in self._program.workers if whole or (isinstance(spec, TrainerSpec) and spec.rank == 0)]
        self._unanswered = {spec.name: Save(self._saves, round_) for spec in specs}
        for name, order in self._unanswered.items():
            self.order(name, order)
        self._until(lambda: not self._unanswered, "the workers did not say what they hold")
        self._hear_last_updates()
        snapshot = Snapshot()
        for spec in specs:
            saved = self._saved[spec.name]
            if isinstance(spec, TrainerSpec) and saved.learned:
                learned = safetensors.torch.load(saved.learned)
                snapshot.learned |= {f"{spec.policy}/{name}": tensor for name, tensor in learned.items()}
            if whole:
                snapshot.states[spec.name] = saved.state
        if whole:
            versions = {name: clock.version for name, clock in self._conductor.controller.clocks.items()}
            snapshot.states[BEFORE] = older_versions(self._program, self.mailboxes, versions)
        return snapshot

    def _until(self, done: Callable[[], bool], what: str) -> None:
        """Those who hang meanwhile are started again; but in a run that is to end, nobody waits for them: HangsError."""
        patience = REST + self._limits.env + self._limits.hang
        deadline = time.monotonic() + patience
        while not done():
            if time.monotonic() > deadline:
                raise ShoalError(f"{what} within {patience:.0f} s: see {self._files.logs}")
            if self._pump():  # one that is not at rest yet may wait for environments that are slow
                deadline = time.monotonic() + patience
            self._conductor.answer()
            self._obey()
            if self._conductor.controller.reason is not None:
                self._check_for_hung()

    def _check_for_hung(self) -> None:
        for link in self._supervisor.links:
            pulse = self._supervisor.pulse(link)
            patience = STARTS if pulse.allowed else max(SILENT, 2 * pulse.longest)
            if pulse.silent > patience and any(w.name in self._unanswered for w in link.process.workers):
                raise HangsError(f"{link.name} has given no sign of life for {pulse.silent:.0f} s")

    def _hear_last_updates(self) -> None:
        """A run that was told to stop in the middle of an update is saved after it, once all have told of it."""
        if self._conductor.controller.reason is not None:
            self._until(lambda: not self._updates.due, "the workers did not tell of the last update")
            while self._inbox:
                self._conductor.receive(self._inbox.popleft())

    def accounts(self) -> Account:
        """What became of all rows."""
        return self._streams.accounts()

    def workers(self) -> list[dict[str, Any]]:
        """Who works where, for the panel."""
        return self._supervisor.workers()

    # ------------------------------------------------------------ deaths

    def _revive(self, death: Death) -> None:
        """A new life for a dead process; those of equal fate go down and come back together."""
        count_death(death)
        controller = self._conductor.controller
        links = self._of_equal_fate(death.link)
        controller.restarted(death.link.name, death.cause, [s.kind for link in links for s in link.process.workers])
        for link in links:
            if link is not death.link:
                self._supervisor.kill(link)
            self._supervisor.reap(link)
        changes: dict[str, Any] = {"evaluated": controller.scoreboard.evaluated}
        if self.checkpoint >= 0:
            self._choose_checkpoint()
        trainers = [spec for link in links for spec in link.process.workers if isinstance(spec, TrainerSpec)]
        if trainers:
            ranks = sorted({spec.rank for spec in trainers})
            self._updates.break_off()
            changes |= self._where_to_go_on(ranks)
            self._start_again(ranks)
        for link in links:
            self._orders.again(link.name)
            for name in (spec.name for spec in link.process.workers if spec.name in self._unanswered):
                self.order(name, self._unanswered[name])  # it may have died with the order, or its answer, in hand
            self._supervisor.restart(link, replace(link.life, incarnation=link.life.incarnation + 1, **changes))

    def _of_equal_fate(self, link: Link) -> list[Link]:
        fate = link.process.fate
        return [other for other in self._supervisor.links if other is link or (fate and other.process.fate == fate)]

    def _start_again(self, ranks: list[int]) -> None:
        for policy, rank in self._replicas:
            if rank in ranks:
                self._made[policy, rank] = 0
                self._resting[policy, rank] = 0  # until it is released: nobody trains in a paused or ending run
                self._gates[policy, rank].close()
        for tally in self._streams.tallies.values():
            tally.renew()

    def _where_to_go_on(self, ranks: list[int]) -> dict[str, Any]:
        """From what is in memory, as the version that is out; where that is lost, from the last checkpoint, as the one after it."""
        program, clocks = self._program, self._conductor.controller.clocks
        self._choose_checkpoint()
        producers = [producer for rank in ranks for producer in program.producers_of(rank)]
        rounds, versions, steps = {}, {}, {}
        for policy in program.learners:
            there = [p for p in producers if names.sample(p, policy) in program.streams]  # a parent has no actors
            taken = [self._counters(producer, policy).taken for producer in there]
            out, began = self._newest(policy), self._starts[policy]
            rounds[policy] = max([*taken, out - began] if program.exact else taken, default=0)
            is_here = self.mailboxes[policy].latest() == out  # else parameters go back, and that is another version
            version = began + rounds[policy] if program.exact else out + (self._sync.in_step and not is_here)
            versions[policy] = max(began, version)  # it may have died before its first was out
            known = self._link_of(policy, ranks[0]).life.steps.get(policy, 0)
            steps[policy] = max(sum(clocks[policy].by_replica.get(rank, 0) for rank in ranks), known)
        return {"rounds": rounds, "versions": versions, "steps": steps}

    def begins_from(self) -> int:
        """The version that a life which begins now goes on from; -1: none. One that was removed is replaced by the newest."""
        if self.checkpoint >= 0 and self.checkpoint not in CheckpointStore(self._files.checkpoints).versions():
            self._choose_checkpoint()
        return self.checkpoint

    def _choose_checkpoint(self) -> None:
        """The newest. Replicas that share memory need none."""
        store = CheckpointStore(self._files.checkpoints)
        if store.versions() and not self._sync.one_machine:
            self.checkpoint = store.latest().version

    def _newest(self, policy: str) -> int:
        """The newest version that anybody may act with."""
        return self.mailboxes[policy].latest()

    def _link_of(self, policy: str, rank: int) -> Link:
        """The process of a trainer's replica."""
        trainers = [spec for spec in self._program.workers if isinstance(spec, TrainerSpec)]
        spec = next(spec for spec in trainers if (spec.policy, spec.rank) == (policy, rank))
        return next(link for link in self._supervisor.links if spec in link.process.workers)

    @property
    def _reason(self) -> str:
        conductor = getattr(self, "_conductor", None)  # before the run begins there is none
        return (conductor.controller.reason or "") if conductor is not None else ""

    def close(self) -> None:
        """Stop the processes, kill those that do not, free the memory."""
        for tally in self._streams.tallies.values():
            tally.abandon()
        self.order("", Stop(self._reason))
        self._supervisor.close()
        self._streams.close()
