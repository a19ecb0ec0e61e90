"""The uplink worker of a child.

Consumes what replicas have learned in a round, and what the parent sends; produces contributions for the parent, and for the
replicas what has come of them. Waits for nobody: the network has a thread of its own, and replicas train on or wait as the recipe
says.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from shoal.api.env import Episode
from shoal.api.messages import Episodes, Finished, Message, Note, Numbers, Shown
from shoal.api.metric import Last, Mean, Metric, Total
from shoal.api.orders import Heard, Order
from shoal.api.policy_spec import PolicyPlan
from shoal.api.program import Port, Program, WorkerSpec, resolved
from shoal.api.worker import Worker
from shoal.base.cadence import episodes_in
from shoal.federation.call import Answered, Call, Lost, Over, Welcomed
from shoal.federation.codecs import Codec, Sender, Vector
from shoal.federation.frames import FrameError
from shoal.federation.layout import Layout, mismatch, one_learner
from shoal.federation.messages import Contribution, Offer, Parcel, Weights
from shoal.federation.network import NetworkThread, listening
from shoal.federation.plan import Plan
from shoal.streams import names
from shoal.workers.context import Context
from shoal.workers.parent_link import Down, ParentConfig, Statistics, Up, carried, down_shape, sizes

PATIENCE = 0.02
"""Seconds that a poll waits for the network, in a run of one thread."""


REFUSED = "refused by the parent"
"""How the reason begins of a child's run that was sent away."""
SHOWING = 1.0
"""Seconds between two looks at the parent, for people."""
RECENT = 1000
"""Episodes of a round that its score is of, at most."""


class Inbox(Protocol):
    """Where what the network says is found."""

    def take(self, timeout: float = 0.0) -> Iterable[object]:
        """All that came."""

    def stop(self) -> None:
        """The worker ends."""


class Line(Protocol):
    """What carries contributions away."""

    def send(self, parcel: Parcel) -> None:
        """If there is a connection."""

    def close(self, reason: str) -> None:
        """Say goodbye."""


class UplinkSpec(WorkerSpec):
    """One per child."""

    kind: ClassVar[str] = "uplink"
    rank_in_process: ClassVar[int] = 45
    hears: ClassVar[tuple[type[Message], ...]] = (Episodes,)
    pinned: ClassVar[bool] = False

    @classmethod
    def place(cls, program: Program) -> list[Self]:
        return [cls(name="uplink")]

    def ports(self, program: Program, plans: Mapping[str, PolicyPlan]) -> list[Port]:
        policy = one_learner(program)
        shape = down_shape(*sizes(plans[policy].algorithm))
        ups = [Port(names.up(policy, rank), "read") for rank in range(program.trainers)]
        return [*ups, Port(names.down(policy), "write", shape)]

    def build(self, context: Context) -> UplinkWorker:
        network, plan = NetworkThread("uplink", context.streams.wake), Plan.of(context)
        worker = self.worker(context, network)
        call = Call(
            network, plan.identity, plan.fingerprint, worker.layout,
            lambda offer: mismatch(offer, plan.fingerprint, worker.layout),
        )  # fmt: skip
        worker.connect(call)
        for uri in plan.call:
            call.to(uri)
        if plan.listen is not None:
            call.listen(listening(plan.listen))
        return worker

    def worker(self, context: Context, network: Inbox) -> UplinkWorker:
        """Not connected yet."""
        program, streams = context.program, context.streams
        policy = one_learner(program)
        algorithm = context.plans[policy].algorithm
        size, features = sizes(algorithm)
        ups = [Up(streams.mailbox(names.up(policy, rank)), size, features) for rank in range(program.trainers)]
        down = Down(streams.mailbox(names.down(policy)), size, features)
        layout = Layout.of(algorithm)
        rounds = ParentConfig.parse(resolved(program.experiment.placement.agree).rest["parent"])
        return UplinkWorker(
            self.name, policy, ups, down, network, layout, alone=not context.supervised, episodes=episodes_in(rounds.every)
        )  # fmt: skip


class UplinkWorker(Worker):
    """`alone`: in one thread with the replicas, which may wait for it: then it waits for the network a little. `episodes`: of a
    round, where these are what ends it."""

    def __init__(
        self, name: str, policy: str, ups: list[Up], down: Down, network: Inbox, layout: Layout, *, alone: bool,
        episodes: int | None = None,
    ) -> None:  # fmt: skip
        self.name, self._policy, self._ups, self._down = name, policy, ups, down
        self._network, self.layout, self._alone = network, layout, alone
        self._call: Line | None = None
        self._codec: Codec | None = None
        self._sender: Sender | None = None
        self._base: Vector | None = None
        """The parameters that the parent knows this child to have; the next deltas are against these."""
        self._base_statistics: Statistics = np.zeros(0)
        self._version = 0
        self._connected = False
        self._open = -1
        """The round that is under way; -1: none."""
        self._sent: Vector | None = None
        self._kept_back: Vector | None = None
        """The residual before that."""
        self._round = 0
        self._taken = [up.newest for up in ups]
        """Of each replica, what was sent last, or lay there when this life began."""
        self._steps = self._updates = 0
        self._began = time.monotonic()
        self._episodes: list[float] = []
        self._metrics: dict[str, Metric] = {}
        self._episodes_due, self._ended, self._called = episodes, 0, False
        """Of a round; that ended in this one; whether the replicas were called upon for it."""
        self._set_aside = 0
        self._round_trip: float | None = None
        self._shown = time.monotonic()

    def connect(self, call: Line) -> None:
        """Who carries contributions away."""
        self._call = call

    def close(self) -> None:
        if self._call is not None:
            self._call.close("the child has ended")
        self._network.stop()

    def handle(self, order: Order) -> list[Message]:
        if isinstance(order, Heard) and isinstance(order.message, Episodes):
            self._episodes += [_return(episode, self._policy) for episode in order.message.episodes]
            self._ended += len(order.message.episodes)
            del self._episodes[:-RECENT]
        return []

    def poll(self, timeout: float) -> list[Message]:
        said: list[Message] = []
        waits = self._alone and (not self._connected or self._open >= 0)
        for event in self._network.take(PATIENCE if waits else 0.0):
            said += self._on(event)
        self._ask()
        rounds = [up.newest for up in self._ups]
        if self._connected and self._open < 0 and all(n > taken for n, taken in zip(rounds, self._taken, strict=True)):
            self._contribute(rounds)
        if self._metrics:
            said.append(Numbers(self._metrics))
            self._metrics = {}
        if time.monotonic() - self._shown >= SHOWING:
            self._shown = time.monotonic()
            said.append(Shown("parent", [self._row()]))
        return said or ([Numbers()] if waits else [])

    def _row(self) -> dict[str, Any]:
        """For people."""
        return {
            "connected": self._connected, "version": self._version, "rounds": self._round, "set aside": self._set_aside,
            "round trip (s)": self._round_trip,
        }  # fmt: skip

    # ------------------------------------------------------------ up

    def _ask(self) -> None:
        """For what was learned, if enough episodes have ended."""
        due = self._episodes_due is not None and self._ended >= self._episodes_due
        if due and self._connected and self._open < 0 and not self._called:
            self._called, self._ended = True, 0
            self._down.ask()

    def _ask_again(self) -> None:
        """What the replicas gave, or will give, is of before the last answer."""
        if self._called:
            self._called, self._ended = False, self._episodes_due or 0

    def _contribute(self, rounds: list[int]) -> None:
        """The mean of the replicas, and the news of their normalisers, which are added up."""
        assert self._call is not None
        assert self._sender is not None
        assert self._base is not None
        found = [up.read() for up in self._ups]
        given = [each for each in found if each is not None]
        if len(given) < len(self._ups):
            return
        self._taken = rounds
        if any(seen != self._down.newest for _, _, seen, *_ in given):  # of before the last answer: another one follows
            self._ask_again()
            return
        self._called = False
        vector: Vector = given[0][3]
        if len(given) > 1:
            vector = np.stack([each[3] for each in given]).mean(0, dtype=np.float64).astype(np.float32)
        values = self._base_statistics
        for *_, own in given:
            values = carried(own, self._base_statistics, values, self.layout.features)
        updates, steps = sum(each[0] for each in given), sum(each[1] for each in given)
        self._kept_back = self._sender.residual.copy()
        data, _ = self._sender.send(vector, self._base)
        learned = float(np.linalg.norm(vector - self._base))
        error = float(np.linalg.norm(self._sender.residual)) / learned if learned else 0.0
        now = time.monotonic()
        header = Contribution(
            round=self._round, base=self._version, samples=max(0, steps - self._steps), updates=max(0, updates - self._updates),
            seconds=now - self._began, error=min(error, 1e9), episodes=len(self._episodes),
            score=float(np.mean(self._episodes)) if self._episodes else None,
        )  # fmt: skip
        self._call.send(Parcel(header, (data, values.tobytes())))
        self._open = self._round
        self._round += 1
        self._sent, self._steps, self._updates, self._began, self._episodes = vector, steps, updates, now, []
        self._metrics |= {"federation/nbytes_up": Total(len(data) + values.nbytes), "federation/error": Mean(error)}

    # ------------------------------------------------------------ down

    def _on(self, event: object) -> list[Message]:
        match event:
            case Welcomed(offer, header, blocks):
                return self._join(offer, header, blocks)
            case Answered(header, blocks):
                return self._answered(header, blocks)
            case Lost(reason):
                said = "lost the parent" if self._connected else "no parent yet"
                self._connected = False
                return [Note(f"{said}: {reason}; training goes on, and another call follows")]
            case Over(reason, done):
                self._connected = False
                return [Finished(f"the parent has ended: {reason}" if done else f"{REFUSED}: {reason}")]
        return []

    def _join(self, offer: Offer, header: Weights, blocks: tuple[bytes, ...]) -> list[Message]:
        """At first go to the parent's weights; after a break only what is new there counts, and what was learned since stays."""
        try:
            weights = self.layout.codec("fp32", 1.0).decode(blocks[0], np.zeros(0, np.float32))
            values = parse_statistics(blocks[1])
        except FrameError as error:
            return [Finished(f"the parent's weights are no good: {error}")]
        taken = self._open >= 0 and header.answers >= self._open
        if self._sender is None:
            self._codec = self.layout.codec(offer.encoding, offer.share)
            self._sender = Sender(self._codec)
            self._down.give(None, weights, values, answered=False)
        elif taken:
            self._down.give(self._sent, weights, values, answered=True)
        else:
            if self._open >= 0 and self._kept_back is not None:
                self._sender.residual = self._kept_back
            self._down.give(self._base, weights, values, answered=False)
        self._use(header, weights, values)
        self._connected = True
        return [Note(f"joined the parent at version {header.version:,}")]

    def _answered(self, header: Weights, blocks: tuple[bytes, ...]) -> list[Message]:
        assert self._codec is not None
        assert self._base is not None
        try:
            weights, values = self._codec.decode(blocks[0], self._base), parse_statistics(blocks[1])
        except FrameError as error:
            return [Finished(f"the parent's weights are no good: {error}")]
        answers = self._open >= 0
        self._down.give(self._sent if answers else self._base, weights, values, answered=answers)
        self._use(header, weights, values)
        self._round_trip = time.monotonic() - self._began
        self._metrics |= {
            "federation/version": Last(header.version), "federation/nbytes_down": Total(sum(map(len, blocks))),
            "federation/round_trip": Mean(self._round_trip),
        }  # fmt: skip
        if header.verdict == "set aside":
            self._set_aside += 1
            return [Note(f"the parent set round {header.answers:,} aside")]
        return []

    def _use(self, header: Weights, weights: Vector, values: Statistics) -> None:
        self._base, self._base_statistics, self._version = weights, values, header.version
        self._open, self._sent = -1, None
        self._ask_again()


def parse_statistics(block: bytes) -> Statistics:
    """Of normalisers, as they travel; what cannot be is a FrameError."""
    values = np.frombuffer(block, "<f8").astype(np.float64)
    if not np.isfinite(values).all() or (np.abs(values) > 1e30).any():
        raise FrameError("a normaliser is NaN, infinite or far too large")
    return values


def _return(episode: Episode, policy: str) -> float:
    """What the policy's agents earned."""
    return float(sum(values.sum() for name, values in episode.played.items() if name == policy))
