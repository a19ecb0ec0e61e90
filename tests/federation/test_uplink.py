"""The uplink of a child, between mailboxes and a line that a test holds: rounds, breaks, and what is lost in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
import pytest

from shoal.api.env import Episode
from shoal.api.federation import FederationConfig
from shoal.api.messages import Episodes, Finished
from shoal.api.orders import Heard
from shoal.federation.call import Answered, Lost, Over, Welcomed
from shoal.federation.global_model import GlobalModel
from shoal.federation.layout import Layout, make_offer
from shoal.federation.messages import Contribution, Parcel
from shoal.federation.uplink import UplinkWorker
from shoal.streams.transports.memory import MemoryMailbox
from shoal.workers.parent_link import Down, Up, down_shape, up_shape

LAYOUT = Layout((("0.w", (5, 8)),), [1])
NOTHING = np.array([0.0, 0.0, 1.0])
START = np.linspace(-1, 1, 40).astype(np.float32)


class Line:
    """In the place of the network."""

    def __init__(self) -> None:
        self.events: deque[object] = deque()
        self.sent: list[Parcel] = []

    def take(self, timeout: float = 0.0) -> Iterable[object]:
        while self.events:
            yield self.events.popleft()

    def stop(self) -> None: ...

    def close(self, reason: str) -> None: ...

    def send(self, parcel: Parcel) -> None:
        self.sent.append(parcel)


class Bench:
    """An uplink, the mailboxes of its replicas, and a parent's model."""

    def __init__(self, replicas: int = 1, encoding: str = "fp32", episodes: int | None = None) -> None:
        ups = [MemoryMailbox(up_shape(40, [1]).nbytes, 1) for _ in range(replicas)]
        shape = down_shape(40, [1])
        down = MemoryMailbox(shape.nbytes, shape.versions)
        self.line = Line()
        self.replicas = [Up(mailbox, 40, [1]) for mailbox in ups]
        self.down = Down(down, 40, [1])
        self.uplink = UplinkWorker(
            "uplink", "agent", [Up(mailbox, 40, [1]) for mailbox in ups], Down(down, 40, [1]), self.line, LAYOUT, alone=False,
            episodes=episodes,
        )  # fmt: skip
        self.uplink.connect(self.line)
        config = FederationConfig.model_validate({"encoding": encoding})
        self.parent = GlobalModel(config, LAYOUT, START, NOTHING)
        self.offer = make_offer("toy", "0" * 64, LAYOUT, config)
        self.updates = 0

    def join(self, number: int = 1) -> None:
        parcel = self.parent.join("anna", number, "0" * 32, "here")
        self.line.events.append(Welcomed(self.offer, parcel.header, parcel.blocks))  # type: ignore[arg-type]
        self.uplink.poll(0.0)

    def give(self, vector: np.ndarray, replica: int = 0, seen: int | None = None, values: np.ndarray = NOTHING) -> None:
        self.updates += 1
        newest = self.down.newest if seen is None else seen
        self.replicas[replica].give(self.updates, 10 * self.updates, newest, vector.astype(np.float32), values)
        self.uplink.poll(0.0)

    def plays(self, episodes: int) -> None:
        episode = Episode(0, 5, {}, played={"agent": np.array([7.0])})
        self.uplink.handle(Heard(Episodes(9, {}, [episode] * episodes)))
        self.uplink.poll(0.0)

    def header(self) -> Contribution:
        header = self.line.sent[-1].header
        assert isinstance(header, Contribution)
        return header

    def mix(self) -> None:
        self.parent.take("anna", self.header(), self.line.sent[-1].blocks, 0, 0.0)
        self.parent.mix(self.parent.ready(0.0))

    def answer(self) -> None:
        parcel = self.parent.answer("anna", "mixed")
        self.line.events.append(Answered(parcel.header, parcel.blocks))  # type: ignore[arg-type]
        self.uplink.poll(0.0)

    def came(self) -> tuple[bool, bool, np.ndarray, np.ndarray, np.ndarray]:
        found = self.down.read(self.down.newest)
        assert found is not None
        return found


def test_a_round_there_and_back() -> None:
    bench = Bench()
    bench.join()
    answered, whole, _, after, _ = bench.came()
    assert (answered, whole) == (False, True)
    assert np.array_equal(after, START)
    bench.plays(1)
    bench.give(START + 1)
    header = bench.header()
    assert (header.round, header.base, header.samples, header.updates, header.score) == (0, 0, 10, 1, 7.0)
    bench.give(START + 2)
    assert len(bench.line.sent) == 1, "one at a time"
    bench.mix()
    bench.answer()
    answered, whole, before, after, _ = bench.came()
    assert (answered, whole) == (True, False)
    assert np.array_equal(before, after)
    assert np.array_equal(after, START + 1)


def test_a_round_of_episodes() -> None:
    """Replicas are asked when so many have ended, once, and again if their answer comes too late."""
    bench = Bench(episodes=3)
    bench.plays(9)
    assert bench.down.newest == -1, "not connected: nobody is asked"
    bench.join()

    def asked() -> bool:
        newest = bench.down.newest
        assert bench.down.read(newest) is not None
        return bench.down.due

    bench.uplink.poll(0.0)
    assert asked(), "there were enough already"
    first = bench.down.newest
    bench.plays(5)
    assert bench.down.newest == first, "asked once"
    bench.give(START + 1)
    assert (bench.header().round, bench.header().episodes) == (0, 14)
    bench.plays(7)
    assert bench.down.newest == first, "that round is under way"
    bench.mix()
    bench.answer()
    bench.uplink.poll(0.0)
    assert asked()
    late = bench.down.newest
    bench.line.events.append(Lost("a cable"))
    bench.uplink.poll(0.0)
    bench.join(2)
    bench.give(START + 2, seen=late)
    assert len(bench.line.sent) == 1, "it is of before the break"
    bench.uplink.poll(0.0)
    assert asked()
    bench.give(START + 2)
    assert bench.header().round == 1


def test_what_a_replica_gave_before_the_last_answer_is_passed_over() -> None:
    bench = Bench()
    bench.join()
    bench.give(START + 1, seen=-1)
    assert not bench.line.sent
    bench.give(START + 1)
    assert len(bench.line.sent) == 1


@pytest.mark.parametrize("taken", [True, False])
def test_a_round_that_was_under_way_when_the_line_broke(taken: bool) -> None:
    bench = Bench()
    bench.join()
    bench.give(START + 1)
    if taken:
        bench.mix()
    bench.line.events.append(Lost("the connection broke"))
    (said,) = bench.uplink.poll(0.0)
    assert "lost the parent" in said.text  # type: ignore[attr-defined]
    bench.give(START + 5, seen=bench.down.newest)
    assert len(bench.line.sent) == 1, "nobody is there"
    bench.join(number=2)
    answered, whole, before, after, _ = bench.came()
    assert (answered, whole) == (taken, False)
    if taken:  # what it gave became what the parent has: what came after stays
        assert np.array_equal(before, START + 1)
        assert np.array_equal(after, START + 1)
    else:  # what it had became what the parent has: all that it learned stays
        assert np.array_equal(before, START)
        assert np.array_equal(after, START)
    assert len(bench.line.sent) == 1, "what lay there is of before"
    bench.give(START + 6)
    assert bench.header().round == 1


def test_what_an_encoding_kept_back_is_not_counted_twice() -> None:
    bench = Bench(encoding="int8")
    bench.join()
    aim = START + np.random.default_rng(1).normal(size=40)
    bench.give(aim)
    bench.line.events.append(Lost("the connection broke"))
    bench.join(number=2)
    bench.give(aim)
    again, first = bench.line.sent[1].blocks[0], bench.line.sent[0].blocks[0]
    assert again == first


def test_replicas_speak_with_one_voice() -> None:
    bench = Bench(replicas=2)
    bench.join()
    bench.give(START, 0, values=np.array([4.0, 1.0, 1.0]))
    assert not bench.line.sent, "the other has not given anything"
    bench.give(START + 2, 1, values=np.array([4.0, 3.0, 1.0]))
    data, values = bench.line.sent[0].blocks
    np.testing.assert_allclose(np.frombuffer(data, "<f4"), START + 1, rtol=1e-6)
    np.testing.assert_allclose(np.frombuffer(values, "<f8"), [8.0, 2.0, 2.0])
    assert bench.header().samples == 30


def test_the_end_is_told() -> None:
    bench = Bench()
    bench.line.events.append(Over("stop.steps = 9 reached", done=True))
    assert bench.uplink.poll(0.0) == [Finished("the parent has ended: stop.steps = 9 reached")]
    bench.line.events.append(Over("it had to go", done=False))
    assert bench.uplink.poll(0.0) == [Finished("refused by the parent: it had to go")]


def test_weights_that_are_no_good_end_the_run() -> None:
    bench = Bench()
    parcel = bench.parent.join("anna", 1, "0" * 32, "here")
    bad = np.full(40, np.nan, "<f4").tobytes()
    bench.line.events.append(Welcomed(bench.offer, parcel.header, (bad, parcel.blocks[1])))  # type: ignore[arg-type]
    (said,) = bench.uplink.poll(0.0)
    assert isinstance(said, Finished)
    assert "NaN" in said.reason
