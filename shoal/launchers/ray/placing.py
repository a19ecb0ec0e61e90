"""Processes and their holders, which are Ray actors in a placement group: where they are put, how they are heard, how they die.

A holder starts its dead process again; Ray starts a holder whose machine is lost on another. What neither can know is where the
job of a worker goes on: that is in the Life that a process is given once it has its place.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError
from ray.util import placement_group_table
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from shoal.api.messages import Message
from shoal.api.program import Process
from shoal.api.worker import Pulse
from shoal.base.errors import ShoalError
from shoal.launchers.links import Death, Limits, Link, failure_reason, hung_before, worker_lines
from shoal.launchers.ray.holder import RayHolder
from shoal.monitoring.logs import LOG
from shoal.streams.control import Failure, parse
from shoal.streams.transports.ray.messages import Arrived, HungUp, News, Pulses
from shoal.workers.context import Life

ENDING = 2.0
"""Seconds in which a dead process's last report may still arrive."""
TELLING = 5.0
"""Seconds that a holder may take to say how its process ended."""
PATIENCE = 4.0
"""Seconds a process has to stop before it is killed."""
ROOM = 5.0
"""Seconds after which somebody who is not needed makes room for somebody who is."""
STARTING = 240.0
"""Seconds that a process may take to start where there is room for it."""
ARRIVING = 20.0
"""Seconds that a process may take until it is heard of, on top of what it has elsewhere; and its holder to answer."""
AGAIN = 0.3
"""Seconds between two questions where an actor is that Ray starts again."""


NO_PULSE = Pulse()


@dataclass
class RayLink(Link):
    """A process, and its holder."""

    handle: Any
    """The holder."""
    node: str = ""
    """The machine it lives on; empty: it has no place yet."""
    machine: str = ""
    """Its address."""
    running: int = 0
    """The process; its holder as long as it was not heard of."""
    holder: tuple[str, int] = ("", 0)
    """The machine and the process of its holder, as last heard."""
    work: Any = None
    """What `serve` will return."""
    where_ref: Any = None
    """What `where` will return."""
    since: float = 0.0
    """When it began to look for a place, or ended."""
    hung_up: float = 0.0
    """When it hung up; 0: it did not."""
    ended: str = ""
    """Why its process ended."""
    pulse: Pulse = NO_PULSE
    """Its signs of life, as its machine tells them."""
    awaited: float = 0.0
    """Since when it was to be heard of; 0: it was, or has no work yet."""
    needed: bool = True
    """The run does not go on without it."""

    @property
    def pid(self) -> int | None:
        return self.running


class RaySupervisor:
    """`place` is told where a process found its place, and makes it work there; `slay` ends a process of a machine."""

    def __init__(
        self, run: str, group: Any, place: Callable[[RayLink], None], slay: Callable[[str, int], None], patience: float
    ) -> None:
        self._run, self._group, self._place, self._slay, self._patience = run, group, place, slay, patience
        self.links: list[RayLink] = []
        self._said: queue.SimpleQueue[list[News]] = queue.SimpleQueue()
        self._news: queue.SimpleQueue[tuple[RayLink, Any, int]] = queue.SimpleQueue()
        """Whose, the answer, and of which life."""
        self._idle: list[tuple[RayLink, int]] = []
        """Who found a place, and was not set to work yet; and in which life."""
        self._door, self._bell = os.pipe()
        os.set_blocking(self._door, False)
        os.set_blocking(self._bell, False)
        self._ended = False
        self._made_room = 0.0
        self._watch = threading.Thread(target=self._watch_refs, name="watch", daemon=True)
        self._watch.start()

    def start(self, process: Process, number: int, life: Life, options: dict[str, Any]) -> None:
        """Let Ray look for a place: in the group, or, for a process that is not needed, wherever there is room some day."""
        if process.needed:
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=sum(link.needed for link in self.links)
            )
        name = f"{self._run}/{process.name}"
        actor = ray.remote(RayHolder).options(name=name, max_restarts=-1, max_task_retries=0, **options)
        link = RayLink(process, number, life, actor.remote(), needed=process.needed)
        self.links.append(link)
        self._ask(link)

    def placed(self) -> None:
        """Wait until every process has its first place."""
        while not all(link.node for link in self.links if link.needed):
            self.wait(0.2)
            self._take_news()
        self._idle.clear()

    def begin(self, link: RayLink, posting: bytes, points: dict[str, Any]) -> None:
        """Let a process work, now that it has its place."""
        link.work, link.awaited = link.handle.serve.remote(posting, points), time.monotonic()

    def restart(self, link: RayLink, life: Life) -> None:
        """Start a dead process again, where its holder is, or will be."""
        link.life, link.reaped = life, False
        self._ask(link)

    def _ask(self, link: RayLink) -> None:
        link.node, link.running, link.work, link.ended, link.pulse = "", 0, None, "", NO_PULSE
        link.since, link.awaited, link.hung_up = time.monotonic(), 0.0, 0.0
        link.where_ref = link.handle.where.remote()

    # ------------------------------------------------------------ listening

    def hear(self, batch: list[News]) -> None:
        """From the agents, in any thread."""
        self._said.put(batch)
        self._ring()

    def _ring(self) -> None:
        try:
            os.write(self._bell, b"!")
        except BlockingIOError:
            return

    def wait(self, timeout: float, *others: Any) -> None:
        """Until a process says something or dies, or one of `others` can be read."""
        wait([self._door, *others], timeout)
        try:
            os.read(self._door, 4096)
        except BlockingIOError:
            return

    def heard(self) -> Iterator[tuple[RayLink, Message]]:
        """All that was said since. Processes that found a place are set to work."""
        self._take_news()
        self._set_to_work()
        while not self._said.empty():
            for news in self._said.get():
                if isinstance(news, Pulses):
                    self._note(news)
                    continue
                link = self.links[news.process]
                if news.incarnation != link.life.incarnation:  # of a life that is over
                    continue
                link.awaited = 0.0
                match news:
                    case Arrived():
                        link.running = news.pid
                        continue
                    case HungUp():
                        link.hung_up = time.monotonic()
                        continue
                said = parse(news.message)
                if isinstance(said, Failure):
                    link.failed(said)
                else:
                    link.time.add(getattr(said, "metrics", {}))
                    yield link, said

    def _note(self, news: Pulses) -> None:
        for number, (incarnation, pulse) in news.pulses.items():
            if self.links[number].life.incarnation == incarnation:
                self.links[number].pulse, self.links[number].awaited = pulse, 0.0

    def _watch_refs(self) -> None:
        while not self._ended:
            waiting = {
                ref: (link, link.life.incarnation)
                for link in self.links for ref in (link.work, link.where_ref) if ref is not None
            }  # fmt: skip
            if not waiting:
                time.sleep(0.05)
                continue
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=0.2)
            for ref in ready:
                link, incarnation = waiting[ref]
                if ref is link.where_ref:
                    link.where_ref = None
                elif ref is link.work:
                    link.work = None
                else:
                    continue
                self._news.put((link, ref, incarnation))
                self._ring()

    def _set_to_work(self) -> None:
        """Whoever found a place: since the last look, or while somebody else was seen to."""
        idle, self._idle = self._idle, []
        for link, incarnation in idle:
            if incarnation == link.life.incarnation and link.node:
                self._place(link)

    def _take_news(self) -> None:
        while not self._news.empty():
            link, ref, incarnation = self._news.get()
            if incarnation != link.life.incarnation:
                continue
            try:
                found = ray.get(ref)
            except ActorUnavailableError as error:
                self._lost(link, ref, str(error))
            except ActorDiedError as error:
                self._lost(link, ref, str(error))
            except RayError as error:
                raise ShoalError(f"{link.name}: {' '.join(str(error).split())}") from error
            else:
                if not isinstance(found, tuple):
                    link.ended, link.since = found or "ended before its time", time.monotonic()
                else:
                    link.node, link.running = link.holder = found
                    self._idle.append((link, incarnation))
        self._look_for_the_unplaced()

    def _lost(self, link: RayLink, ref: Any, cause: str) -> None:
        """Its process is gone, or was when it was asked for its place: then it is asked again."""
        if link.node:
            link.ended, link.since = f"ended: {_first_line(cause)}", time.monotonic()
            self.kill(link)  # where only its holder is lost, or only out of reach
        LOG.info("%s: %s", link.name, _first_line(cause))

    def _look_for_the_unplaced(self) -> None:
        now = time.monotonic()
        for link in self.links:
            if link.node or link.reaped:
                continue
            if link.needed and now - link.since > self._patience:
                self._see_why(link, now - link.since)
            elif link.needed and now - max(link.since, self._made_room) > ROOM:
                self._make_room()
            if link.holder[1] and now - link.since > ARRIVING:  # it does not answer: Ray starts another
                self._slay(*link.holder)
                link.holder = ("", 0)
            if link.where_ref is None:
                time.sleep(AGAIN / len(self.links))
                link.where_ref = link.handle.where.remote()

    def _make_room(self) -> None:
        """A process that is needed waits, and one that is not may have its place: it looks for another."""
        self._made_room = time.monotonic()
        spare = [link for link in self.links if not link.needed and link.node]
        if spare and placement_group_table(self._group)["state"] != "CREATED":
            ray.kill(spare[-1].handle, no_restart=False)

    def _see_why(self, link: RayLink, seconds: float) -> None:
        """A process takes its time to start; but for one that found no room nobody waits longer than was said."""
        if placement_group_table(self._group)["state"] != "CREATED":
            raise ShoalError(
                f"{link.name} found no place within placement.cluster.wait = {self._patience:g} s: "
                "add a machine or ask for less (`shoal plan --on ray` shows what fits), then go on with --resume"
            )
        if seconds > self._patience + STARTING:
            raise ShoalError(f"{link.name} has its place and did not start within {seconds:.0f} s: see Ray's own logs")

    def deaths(self, limits: Limits) -> Iterator[Death]:
        """Who is dead, or is killed now because it was silent for too long."""
        for link in self.links:
            if link.failure is not None:
                yield Death(link, failure_reason(link.failure), link.life)
            elif link.ended and time.monotonic() - link.since > self._grace(link):
                yield Death(link, f"{link.name} {link.ended}", link.life)
            elif link.hung_up and time.monotonic() - link.hung_up > TELLING:
                self.kill(link)
                yield Death(link, f"{link.name} ended, and its holder does not say how", link.life)
            elif (cause := limits.exceeded(link.name, self._silence(link))) is not None:
                self.kill(link)
                yield Death(link, cause, link.life)

    def _silence(self, link: RayLink) -> Pulse:
        """One that was never heard of has hung before it could be."""
        return Pulse(time.monotonic() - link.awaited, allowed=ARRIVING) if link.awaited else link.pulse

    def _grace(self, link: RayLink) -> float:
        """A process that ended by itself has said why, if it could: that may take another way, and longer."""
        return ENDING if "exit code 1" in link.ended else 0.0

    def pulse(self, link: RayLink) -> Pulse:
        """The signs of life of a process."""
        return link.pulse

    # ------------------------------------------------------------ ends

    def kill(self, link: RayLink) -> None:
        """End a process at once; its holder starts the next."""
        self._slay(link.node, link.running)

    def reap(self, link: RayLink) -> None:
        """Its process is dead, or is made so: one that failed may take its time."""
        if link.failure is not None and not link.ended:
            deadline = time.monotonic() + ENDING
            while not link.ended and time.monotonic() < deadline:
                self.wait(0.05)
                self._take_news()
            if not link.ended:
                self.kill(link)
        link.failure, link.reaped = None, True

    def workers(self) -> list[dict[str, Any]]:
        """A line per worker, for people, with the machine that it lives on."""
        links = {spec.name: link for link in self.links for spec in link.process.workers}
        pulses = {link.number: link.pulse for link in self.links}
        lines = [{**line, "node": links[line["name"]].machine} for line in worker_lines(self.links, pulses)]
        return [line if links[line["name"]].node else {**line, "state": "waits for a place"} for line in lines]

    def stop(self) -> None:
        """All were told to stop: see to it. Who hung before that is not waited for, and nobody waits for it any more."""
        told, killed = time.monotonic(), set[int]()
        while (left := [link for link in self.links if link.work is not None]) and time.monotonic() - told < PATIENCE:
            for link in left:
                if link.number not in killed and hung_before(link.pulse, time.monotonic() - told):
                    killed.add(link.number)
                    self.kill(link)
            self.wait(0.1)
            while not self._said.empty():
                for news in self._said.get():
                    if isinstance(news, Pulses):
                        self._note(news)
        self.close()

    def close(self) -> None:
        """No process lives on."""
        self._ended = True
        self._watch.join(2)
        for link in self.links:
            ray.kill(link.handle, no_restart=True)
        self.links = []
        os.close(self._bell)
        os.close(self._door)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else text
