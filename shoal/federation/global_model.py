"""The parent's weights, and how they come about: contributions in, new versions and answers out. Without a network and without a
clock of its own: what is tested here holds whoever carries it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.api.federation import FederationConfig
from shoal.federation.children import Child, Pending
from shoal.federation.codecs import Vector
from shoal.federation.frames import FrameError
from shoal.federation.layout import Layout
from shoal.federation.messages import Contribution, Parcel, Weights
from shoal.federation.mixing import Given, Mixer, fair_samples
from shoal.federation.strikes import Strikes
from shoal.federation.uplink import parse_statistics
from shoal.workers.parent_link import Statistics, carried

MAJORITY = 3
"""Children at least, of whom a part can be better than the rest."""


@dataclass(frozen=True)
class Mixed:
    """A version was made of these."""

    version: int
    children: list[str]
    samples: int
    staleness: float


class GlobalModel:
    """Weights, children, and what is on its way between them."""

    def __init__(self, config: FederationConfig, layout: Layout, weights: Vector, statistics: Statistics) -> None:
        self._config, self._layout = config, layout
        self.weights, self.statistics = weights.copy(), statistics.copy()
        self.version = self.steps = 0
        self.children: dict[str, Child] = {}
        self.pending: list[Pending] = []
        self.strikes = Strikes(config.strikes)
        self._mixer = Mixer(config.mixing, layout.size)
        self._codec = layout.codec(config.encoding, config.share)

    # ------------------------------------------------------------ children

    @property
    def connected(self) -> list[Child]:
        """Those who are there."""
        return [child for child in self.children.values() if child.connected]

    def join(self, name: str, number: int, session: str, where: str) -> Parcel:
        """A child is there; the answer is all weights. What it gave and is not mixed yet it gives again, with what came after."""
        child = self.children.setdefault(name, Child(name))
        child.joined(number, session, where)
        for pending in [each for each in self.pending if each.child == name]:
            self.pending.remove(pending)
            child.taken = min(child.taken, pending.round - 1)
        return self._whole(child)

    def leave(self, name: str, number: int) -> bool:
        """Its connection ended; False: it has another by now."""
        child = self.children.get(name)
        if child is None or child.number != number:
            return False
        child.number = 0
        return True

    def _whole(self, child: Child) -> Parcel:
        child.base, child.statistics, child.version = self.weights.copy(), self.statistics.copy(), self.version
        fp32 = self._layout.codec("fp32", 1.0)
        return self._parcel(child, fp32.encode(self.weights, self.weights), whole=True, verdict="")

    def _parcel(self, child: Child, data: bytes, *, whole: bool, verdict: Any) -> Parcel:
        header = Weights(
            version=child.version, whole=whole, answers=child.taken, verdict=verdict, steps=self.steps
        )  # fmt: skip
        return Parcel(header, (data, child.statistics.astype("<f8").tobytes()))

    def answer(self, name: str, verdict: str) -> Parcel:
        """The present weights, encoded against what the child has; it then has exactly what it decodes."""
        child = self.children[name]
        data = self._codec.encode(self.weights, child.base)
        child.base = self._codec.decode(data, child.base)
        child.statistics, child.version = self.statistics.copy(), self.version
        return self._parcel(child, data, whole=False, verdict=verdict)

    # ------------------------------------------------------------ contributions

    def take(self, name: str, header: Contribution, blocks: tuple[bytes, ...], nbytes: int, now: float) -> Pending:
        """A contribution, decoded and checked; FrameError says what is wrong with it."""
        child = self.children[name]
        if header.base != child.version or header.round <= child.taken:
            raise FrameError(f"round {header.round} against version {header.base}: {child.version} is due")
        child.taken = header.round
        values = self._checked(parse_statistics(blocks[1]), child.statistics)
        weights = self._codec.decode(blocks[0], child.base)
        active = {other.name: other.samples for other in self.connected if other.samples}
        samples = fair_samples(name, header.samples, active)
        staleness = self.version - child.version
        child.heard(header, nbytes + len(blocks[0]), staleness)
        child.samples = samples
        pending = Pending(
            name, header.round, weights, child.base, values, child.statistics, samples, child.version, now,
            examined=self._config.accept is None,
        )  # fmt: skip
        self.pending.append(pending)
        return pending

    def _checked(self, values: Statistics, before: Statistics) -> Statistics:
        at = 0
        for size in self._layout.features:
            if values[at] < before[at] or (values[at + 1 + size : at + 1 + 2 * size] < 0).any():
                raise FrameError("a normaliser forgot what it had counted, or varies less than nothing")
            at += 1 + 2 * size
        return values

    def examined(self, pending: Pending, score: float, *, worse: bool) -> None:
        """It was evaluated against the present version."""
        pending.examined, pending.score = True, score
        pending.worse_than = self.version if worse else None

    def set_aside(self, pending: Pending) -> Parcel | None:
        """It is not mixed; the child goes back to the present weights. None: it is not there."""
        self.pending.remove(pending)
        child = self.children[pending.child]
        return self.answer(child.name, "set aside") if child.connected else None

    def forget(self, name: str) -> None:
        """A child has to go, and what it gave goes with it."""
        self.pending = [pending for pending in self.pending if pending.child != name]

    # ------------------------------------------------------------ mixing

    def ready(self, now: float) -> list[Pending]:
        """What makes a mix; empty: more children have to give something, and there is time.

        Who gave something worse has had its say, and is not waited for. If all of three or more did, it is the parent's version
        that was lucky, or all would stand still: the better half of them is taken.
        """
        said = [pending for pending in self.pending if pending.examined]
        good = [pending for pending in said if pending.worse_than is None]
        if not said or not (self._enough(good) or self._all_said(said, now)):
            return []
        if good or len(said) < MAJORITY:
            return good
        return sorted(said, key=lambda pending: -pending.score)[: (len(said) + 1) // 2]

    def turned_away(self, now: float) -> list[Pending]:
        """What no mix will take, and is set aside: once there was a mix, or there is nothing to make one of."""
        said = [pending for pending in self.pending if pending.examined]
        worse = [pending for pending in said if pending.worse_than is not None]
        if worse and len(worse) == len(said) < MAJORITY and self._all_said(said, now):
            return worse
        return [pending for pending in worse if pending.worse_than != self.version]

    @property
    def _there(self) -> set[str]:
        """Who is connected, or has given something."""
        return {child.name for child in self.connected} | {pending.child for pending in self.pending}

    def _enough(self, good: list[Pending]) -> bool:
        there = len(self._there)
        return len(good) >= (there if self._config.quorum == "all" else min(self._config.quorum, there))

    def _all_said(self, said: list[Pending], now: float) -> bool:
        """Everyone who is there has; or the others are late."""
        late = now - min(pending.came for pending in said) >= self._config.patience
        return late or {pending.child for pending in said} >= self._there

    def mix(self, ready: list[Pending]) -> Mixed:
        """The next version. Pendings are gone afterwards; the children in them are to be answered."""
        given = [Given(one.child, one.weights, one.base, one.samples, self.version - one.version) for one in ready]
        out = {pending.child for pending in self.pending if pending.worse_than is not None and pending not in ready}
        active = {child.name: child.samples for child in self.connected if child.samples and child.name not in out}
        mixed = self._mixer.mix(self.weights, given, active)
        if not np.isfinite(mixed).all():
            raise FrameError("what comes of it is not finite")
        self.weights = mixed
        for one in ready:
            self.statistics = carried(one.statistics, one.origin, self.statistics, self._layout.features)
            self.pending.remove(one)
        self.version += 1
        samples = sum(one.samples for one in ready)
        self.steps += samples
        return Mixed(self.version, [one.child for one in given], samples, float(np.mean([g.staleness for g in given])))

    # ------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        """To go on from; who is connected is not part of it, what is pending neither: it is asked for again."""
        untaken = {pending.child: pending.round for pending in self.pending}
        children = {
            child.name: {
                "session": child.session, "taken": min(child.taken, untaken.get(child.name, child.taken + 1) - 1),
                "samples": child.samples, "rounds": child.rounds,
            }
            for child in self.children.values()
        }  # fmt: skip
        return {
            "version": self.version, "steps": self.steps, "weights": self.weights, "statistics": self.statistics,
            "mixer": self._mixer.state(), "children": children, "strikes": self.strikes.state(),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.version, self.steps = int(state["version"]), int(state["steps"])
        self.weights, self.statistics = np.array(state["weights"]), np.array(state["statistics"])
        self._mixer.restore(state["mixer"])
        self.strikes.restore(state["strikes"])
        for name, known in state["children"].items():
            self.children[name] = Child(
                name, session=str(known["session"]), taken=int(known["taken"]), samples=int(known["samples"]),
                rounds=int(known["rounds"]),
            )  # fmt: skip
