"""The streams of a whole run: rings that the controller itself writes, whoever reads them and however often that one dies."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from shoal.api.experiment import Experiment
from shoal.api.program import CONTROLLER, MailboxStream, Process, Program, RingStream
from shoal.streams.primitives import Ring
from shoal.streams.sample import NOTHING
from shoal.streams.shared_streams import AttachedStreams, SharedStreams
from shoal.streams.stream_set import MemoryStreams
from shoal.testing.transport import LAYOUT
from tests.streams.shm_child import child, obey, result

COUNT, HELD = 100, 3
PROGRAM = Program(
    Experiment.parse({"env": {"id": "CartPole-v1"}}),
    {},
    "sum",
    (Process("reader", (), {}),),
    {
        "orders": RingStream(LAYOUT, 4, CONTROLLER, "reader"),
        "heard": RingStream(LAYOUT, 4, "reader", CONTROLLER),
        "word": MailboxStream(8, 1, CONTROLLER, ("reader",)),
    },
)


def post(ring: Ring, number: int, timeout: float = 0.0) -> bool:
    slot = ring.begin(timeout)
    if slot is None:
        return False
    slot.arrays["id"][...] = number
    ring.post(slot)
    return True


def take(ring: Ring, timeout: float = 0.0) -> int | None:
    slot = ring.take(timeout)
    if slot is None:
        return None
    number = int(slot.arrays["id"])
    ring.free(slot)
    return number


def test_the_controllers_ring_in_memory() -> None:
    streams = MemoryStreams(PROGRAM)
    for number in range(COUNT):
        assert post(streams.ring("orders"), number)
        assert take(streams.ring("orders")) == number
    assert streams.shared("orders") is None


def test_the_controllers_ring_in_shared_memory() -> None:
    streams = SharedStreams(PROGRAM)
    process = AttachedStreams(streams.handles("reader"), 0)
    for number in range(COUNT):
        assert post(streams.ring("orders"), number)
        assert take(process.ring("orders"), 1.0) == number
    assert streams.counters("orders") == (COUNT, COUNT, COUNT)
    assert streams.accounts() == NOTHING, "no ring here counts rows"
    streams.close()


@pytest.mark.timeout(60)
def test_what_the_controller_said_comes_in_order_through_the_deaths_of_its_reader() -> None:
    streams = SharedStreams(PROGRAM)
    orders, heard, handles = streams.ring("orders"), streams.ring("heard"), streams.handles("reader").rings
    lives: list[list[int]] = []

    def exchange(until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not until():
            assert time.monotonic() < deadline, f"heard {lives}"
            if orders.posted < COUNT:
                post(orders, orders.posted)
            if (number := take(heard, 0.001)) is not None:
                lives[-1].append(number)

    for incarnation in range(4):
        first, last_life = orders.freed, incarnation == 3
        lives.append([])
        with child(obey, handles["orders"], handles["heard"], incarnation, HELD, COUNT - 1) as reader:
            if last_life:
                exchange(lambda: lives[-1][-1:] == [COUNT - 1])
                result(reader)
            else:
                exchange(lambda: len(lives[-1]) >= 20)
                reader.kill()
                reader.wait(10)
                kept = [int(slot.arrays["id"]) for slot in orders.held()]
                assert kept == list(range(orders.freed, orders.freed + len(kept))), (
                    "slots of the dead stay as they were"
                )
                assert HELD - 1 <= len(kept) <= HELD
                exchange(lambda: heard.posted == heard.taken)
        assert lives[-1] == list(range(first, first + len(lives[-1]))), "from the first that was not freed, in order"
    assert lives[-1][-1] == COUNT - 1
    assert orders.freed == COUNT
    streams.close()
