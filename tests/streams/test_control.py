"""The control stream: what is said and what is told arrives as it was sent, in order, and none is lost with a process."""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from shoal.api import messages, orders
from shoal.api.env import Episode
from shoal.api.evaluation import Evaluation, Match, Scores
from shoal.api.messages import (
    Concluded,
    Confirmed,
    Episodes,
    Evaluated,
    Evaluating,
    Finished,
    Matches,
    Message,
    Note,
    Numbers,
    Reconfigured,
    Requested,
    Saved,
    Shown,
    Updated,
)
from shoal.api.metric import METRICS, Last, Mean, Metric, Total
from shoal.api.orders import (
    Conclude,
    Evaluate,
    Flush,
    Heard,
    LoadWeights,
    Order,
    Pause,
    Reconfigure,
    Save,
    SetOdds,
    SetStage,
    Stop,
)
from shoal.base.errors import InputError, ShoalError
from shoal.streams.control import ORDERS, ROOM, ControlEnd, Failure, OrderReader, OrderWriter, pack, pieces_of, unpack
from shoal.streams.primitives import Ring
from shoal.streams.transports.memory import MemoryRing
from shoal.streams.transports.shm.ring import ShmRing

METRIC: dict[str, Metric] = {name: kind(3.5) for name, kind in METRICS.items()}
EPISODE = Episode(
    1, 25, {"agent": np.array([1.5, -2.0])}, {"won": 1.0}, {"agent": np.array([1.5])},
    match=[0, 1, 0, 3, 25], producer=3, round=7, told={"rollout/arm": Last(4.0)},
)  # fmt: skip
MATCH = Match("past", {"player_0": "a", "player_1": "past@3"}, {"player_0": 1.0, "player_1": -1.0}, ["player_0"])
SCORES = Scores([1.5, 2.5], [3, 4], {"a": 0.5}, 2.0, {"x": 7.0}, [MATCH, MATCH], repeated=True)
SAID: list[Message] = [
    Message(),
    Numbers(),
    Numbers(METRIC),
    Episodes(64, {0: {"a": 3, "b": 4}, 11: {"a": 2, "b": 9}}, [EPISODE, EPISODE], {"time": Mean(1.0, 4)}),
    Matches(bytes(range(80))),
    Updated("a", 7, 2, 4096, METRIC, trained=False),
    Saved("trainer-a-0", 4, bytes(range(256)), b"\0\1"),
    Evaluating(3),
    Confirmed(3, SCORES),
    Evaluated(Evaluation(3, 300, SCORES, 2.5, Scores([1.0], [2]), "0000000003.mp4", 1)),
    Reconfigured("a", {"lr": 0.5, "clip": None, "novelty": {"weight": [1, 2]}}),
    Requested("trainer", Reconfigure("a", {"lr": 1e-4})),
    Note("a line with ümlauts"),
    Shown("children", [{"name": "anna", "score": 1.5, "connected": True}]),
    Finished("the parent has ended"),
    Concluded("league"),
]
TOLD: list[Order] = [
    Order(),
    Save(4, 17),
    SetStage(2),
    SetOdds({"main": [[0, -1, 0.5], [0, 3, 0.5]]}),
    Evaluate(3, 300, 1),
    Reconfigure("a", {"lr": 0.5, "novelty.weight": 1, "off": False}),
    LoadWeights("a", "/runs/x/checkpoints", 12, "best"),
    Flush(3, "a", 9),
    Pause(True),
    Conclude(),
    Heard(Episodes(3, {0: {"a": 1}}, [EPISODE])),
    Stop(),
]


@dataclass(frozen=True)
class Own(Message):
    """A user's own message, which travels by the name of its class."""

    words: list[str]
    numbers: np.ndarray


@dataclass(frozen=True)
class OwnOrder(Order):
    """And an order."""

    by: float


def same(one: Any, two: Any) -> bool:
    """Equal in type and value, all the way down; arrays too."""
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == two.dtype and one.shape == two.shape and np.array_equal(one, two)
    if dataclasses.is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(two, f.name)) for f in dataclasses.fields(one))
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two)


def types_of(module: Any, base: type) -> set[type]:
    return {cls for cls in vars(module).values() if isinstance(cls, type) and issubclass(cls, base)}


# ---------------------------------------------------------------- as bytes


def test_the_lists_above_are_whole() -> None:
    assert {type(message) for message in SAID} == types_of(messages, Message)
    assert {type(order) for order in TOLD} == types_of(orders, Order)


@pytest.mark.parametrize("value", [*SAID, *TOLD], ids=lambda value: type(value).__name__)
def test_all_that_is_said_and_told_arrives_as_it_was(value: Message | Order) -> None:
    assert same(unpack(pack(value)), value)


def test_classes_of_users_travel_too() -> None:
    message = Own(["a", "b"], np.arange(6, dtype=np.float32).reshape(2, 3))
    assert same(unpack(pack(message)), message)
    wish = Requested("mine", OwnOrder(math.pi))
    assert same(unpack(pack(wish)), wish)


@pytest.mark.parametrize(
    "array",
    [np.zeros((0, 3), np.int64), np.array(2.5), np.array([True, False]), np.arange(8, dtype=np.uint8)[::2]],
    ids=["empty", "scalar", "bool", "strided"],
)
def test_arrays_keep_type_and_shape_and_can_be_written(array: np.ndarray) -> None:
    found = unpack(pack(Own([], array))).numbers
    assert same(found, np.ascontiguousarray(array).reshape(array.shape))
    found[...] = 1


def test_numbers_of_numpy_are_numbers() -> None:
    found = unpack(pack(Numbers({"a": Total(np.float32(1.5)), "b": Total(np.int64(2))})))
    assert found == Numbers({"a": Total(1.5), "b": Total(2)})


def test_what_is_not_finite_stays_so() -> None:
    found = unpack(pack(Numbers({"a": Last(math.nan), "b": Last(-math.inf)})))
    assert math.isnan(found.metrics["a"].value)
    assert found.metrics["b"].value == -math.inf


# ---------------------------------------------------------------- messages


@pytest.fixture
def pipe() -> Iterator[tuple[ControlEnd, ControlEnd]]:
    near, far = multiprocessing.Pipe()
    ends = ControlEnd(near), ControlEnd(far)
    yield ends
    for end in ends:
        end.close()


def test_messages_come_in_order(pipe: tuple[ControlEnd, ControlEnd]) -> None:
    worker, controller = pipe
    assert controller.take() is None
    for message in SAID:
        worker.send(message)
    assert all(same(controller.take(), message) for message in SAID)
    assert controller.take() is None


@pytest.mark.timeout(20)
@pytest.mark.parametrize("long", [False, True])
def test_a_message_of_which_only_a_part_came_is_not_waited_for(long: bool) -> None:
    """Its sender may have been stopped in the middle of it."""
    near, far = multiprocessing.Pipe()
    data = pack(Note("x" * 100_000))
    header = struct.pack("!iQ", -1, len(data)) if long else struct.pack("!i", len(data))
    controller, sent = ControlEnd(far), header + data
    for part in (sent[:3], sent[3:9], sent[9:50_000], sent[50_000:]):
        assert controller.take() is None
        os.write(near.fileno(), part)
    near.send_bytes(pack(Numbers()))
    assert same(controller.take(), Note("x" * 100_000))
    assert same(controller.take(), Numbers())
    near.close()
    assert controller.take() is None
    controller.close()


@pytest.mark.parametrize(
    ("error", "wrong_input", "text"),
    [
        (InputError("env.id = 'x': no"), True, "env.id = 'x': no"),
        (ShoalError("deadlock"), False, "deadlock"),
        (ValueError("what"), False, "ValueError: what"),
    ],
)
def test_the_last_words_of_a_process(
    pipe: tuple[ControlEnd, ControlEnd], error: Exception, wrong_input: bool, text: str
) -> None:
    worker, controller = pipe
    worker.send(Numbers())
    worker.fail(error)
    worker.close()
    assert controller.take() == Numbers()
    failure = controller.take()
    assert isinstance(failure, Failure)
    assert (failure.wrong_input, failure.text) == (wrong_input, text)
    assert type(error).__name__ in failure.trace
    assert controller.take() is None, "it has hung up"


# ---------------------------------------------------------------- orders


def memory() -> Ring:
    return MemoryRing(ORDERS.layout, ORDERS.slots)


def shared() -> Ring:
    return ShmRing(ORDERS.layout, ORDERS.slots)


@pytest.fixture(params=[memory, shared])
def ring(request: Any) -> Iterator[Ring]:
    make: Callable[[], Ring] = request.param
    made = make()
    yield made
    if isinstance(made, ShmRing):
        made.close()


def test_orders_come_in_order_to_whom_they_are_for(ring: Ring) -> None:
    writer, reader = OrderWriter(ring), OrderReader(ring)
    assert not reader.waiting
    assert list(reader.take()) == []
    writer.give("actor-0", SetStage(1))
    writer.give("", Pause(True))
    writer.give("trainer-a-0", Save(1, 2))
    assert reader.waiting
    assert list(reader.take()) == [("actor-0", SetStage(1)), ("", Pause(True)), ("trainer-a-0", Save(1, 2))]
    assert not reader.waiting
    assert list(reader.take()) == []


def test_orders_without_room_wait_and_keep_their_order(ring: Ring) -> None:
    writer, reader = OrderWriter(ring), OrderReader(ring)
    count = 3 * ORDERS.slots + 1
    for number in range(count):
        writer.give("a", SetStage(number))
    heard: list[int] = []
    for round_ in range(count):
        heard += [order.stage for _, order in reader.take() if isinstance(order, SetStage)]
        if round_ == 0:
            assert heard == list(range(ORDERS.slots)), "as many as there are slots"
            writer.give("a", SetStage(count))
        writer.flush()
    assert heard == list(range(count + 1))


def test_what_was_taken_and_not_obeyed_is_there_for_the_next_life(ring: Ring) -> None:
    writer, reader = OrderWriter(ring), OrderReader(ring)
    for stage in range(4):
        writer.give("a", SetStage(stage))
    taking = reader.take()
    assert next(taking) == ("a", SetStage(0))
    assert next(taking) == ("a", SetStage(1))  # so the first counts as obeyed
    later = OrderReader(ring)  # and here the process died, in the middle of the second
    writer.give("a", SetStage(4))
    assert later.waiting
    assert [order for _, order in later.take()] == [SetStage(stage) for stage in (1, 2, 3, 4)]
    assert list(OrderReader(ring).take()) == [], "all of them were obeyed"


def test_a_process_that_dies_again_and_again_loses_no_order(ring: Ring) -> None:
    writer, obeyed = OrderWriter(ring), []
    for stage in range(30):
        writer.give("a", SetStage(stage))
    for _ in range(200):
        taking = OrderReader(ring).take()
        for _, order in taking:
            assert isinstance(order, SetStage)
            obeyed.append(order.stage)
            if len(obeyed) % 3 == 0:  # it dies with the order done, and not freed
                break
        taking.close()  # type: ignore[attr-defined]
        writer.flush()
    assert list(dict.fromkeys(obeyed)) == list(range(30))
    assert obeyed == sorted(obeyed)


def test_an_order_that_is_too_long_is_a_mistake_of_whoever_gave_it(ring: Ring) -> None:
    writer, reader = OrderWriter(ring), OrderReader(ring)
    with pytest.raises(InputError, match=rf"bytes is too long: Reconfigure; at most {ROOM:,}"):
        writer.give("a", Reconfigure("a", {"words": "x" * ROOM}))
    fitting = Reconfigure("a", {"words": "x" * (ROOM - 200)})
    writer.give("a", fitting)
    assert list(reader.take()) == [("a", fitting)], "and nothing is left of the other"


# ---------------------------------------------------------------- what workers hear of each other


def finished(number: int, agents: int = 1, metrics: int = 0) -> Episode:
    told = {f"metric_{index}": float(number) for index in range(metrics)}
    return Episode(number, 500, {"agents": np.zeros(agents)}, told, {"policy": np.zeros(agents)})


def test_a_long_message_is_heard_in_pieces() -> None:
    whole = Episodes(640, {0: {"a": 3}}, [finished(number) for number in range(100)], {"time": Total(1)})
    first, *others = pieces_of(whole)
    assert isinstance(first, Episodes)
    assert (first.steps, first.rounds, first.metrics) == (640, {0: {"a": 3}}, {"time": Total(1)})
    assert others
    assert all(isinstance(p, Episodes) and (p.steps, p.rounds, p.metrics) == (0, {}, {}) for p in others)
    assert [e.row for p in (first, *others) for e in p.episodes] == list(range(100)), "in order, each once"  # type: ignore[attr-defined]


@pytest.mark.parametrize("message", [*SAID, Episodes(0)], ids=lambda value: type(value).__name__)
def test_a_short_message_stays_whole(message: Message) -> None:
    (piece,) = pieces_of(message)
    assert piece is message


def test_of_a_long_evaluation_single_games_stay_behind(ring: Ring) -> None:
    scores = dataclasses.replace(SCORES, matches=[MATCH] * 400)
    bare = dataclasses.replace(scores, matches=[])
    (piece,) = pieces_of(Evaluated(Evaluation(3, 300, scores, 2.5, scores)))
    assert piece == Evaluated(Evaluation(3, 300, bare, 2.5, bare))
    OrderWriter(ring).give("a-worker-with-a-long-name", Heard(piece))


@pytest.mark.parametrize(("agents", "metrics"), [(1, 0), (5, 10), (20, 20)])
def test_every_piece_is_short_enough_to_be_an_order(agents: int, metrics: int, ring: Ring) -> None:
    writer = OrderWriter(ring)
    for piece in pieces_of(Episodes(640, {}, [finished(number, agents, metrics) for number in range(100)])):
        writer.give("a-worker-with-a-long-name", Heard(piece))


def test_last_words_of_megabytes_are_shortened(pipe: tuple[ControlEnd, ControlEnd]) -> None:
    worker, controller = pipe
    worker.fail(ValueError("x" * 10_000_000))  # more than the pipe holds, which nobody empties yet
    failure = controller.take()
    assert isinstance(failure, Failure)
    assert failure.text.startswith("ValueError: xxx")
    assert len(failure.text) < 1_100
    assert len(failure.trace) < 21_000
