"""Calls to other machines go together, in order, and again. Ray's answers are made up; the calls are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="the extra `cluster` is not installed")

import ray

from shoal.streams.transports.ray import courier
from shoal.streams.transports.ray.courier import AHEAD, SMALL, WHOLE, Courier
from shoal.streams.transports.ray.messages import Credit, Deliver, Version


class Actor:
    """Writes down what it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, method: str) -> Any:
        return Method(lambda *args: self.calls.append((method, args)) or len(self.calls))

    def heard(self) -> list[list[Any]]:
        """Call by call, the numbers of what came with it."""
        return [[m[1] for m in args[1]] if method == "receive" else [args[2]] for method, args in self.calls]


class Method:
    def __init__(self, do: Callable[..., Any]) -> None:
        self.remote = do


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What Ray will say next of calls that were made: nothing, or an error; then it says that all arrived."""
    said: list[Any] = []

    def get(ref: Any) -> None:
        if said:
            raise said.pop(0)

    monkeypatch.setattr(courier.ray, "wait", lambda refs, timeout: (refs, []))
    monkeypatch.setattr(courier.ray, "get", get)
    monkeypatch.setattr(courier, "RETRY", 0.0)
    return said


@pytest.fixture
def line() -> tuple[Courier, Actor]:
    sender, actor = Courier("a"), Actor()
    sender.connect({"b": actor})
    return sender, actor


@pytest.mark.usefixtures("answers")
def test_small_calls_of_one_step_go_as_one(line: tuple[Courier, Actor]) -> None:
    sender, actor = line
    for number in range(5):
        sender.send("b", Credit("r", number, b"books"))
    assert sender.busy("b")
    assert actor.heard() == []
    assert sender.step()
    assert actor.heard() == [[0, 1, 2, 3, 4]]
    assert actor.calls[0][0] == "receive"
    assert actor.calls[0][1][0] == "a"
    assert actor.calls[0][1][1][0] == Credit("r", 0, b"books")
    assert not sender.step()
    assert len(actor.calls) == 1


@pytest.mark.usefixtures("answers")
def test_large_calls_and_references_wait_for_nobody_and_overtake_nobody(line: tuple[Courier, Actor]) -> None:
    sender, actor = line
    sender.send("b", Deliver("r", 0, [np.zeros(10, np.uint8)]))
    sender.send("b", Deliver("r", 1, [np.zeros(10, np.uint8), np.zeros(WHOLE, np.uint8)]))
    assert actor.heard() == [[0, 1]]
    sender.send("b", Credit("r", 2, b""))
    reference = ray.ObjectRef(b"0" * 28)
    sender.send("b", Version("v", 3, reference, [1]))
    assert actor.heard() == [[0, 1], [2], [3]]
    assert actor.calls[-1] == ("receive_version", ("a", "v", 3, reference, [1])), (
        "an argument of its own, so Ray fetches it"
    )


@pytest.mark.usefixtures("answers")
def test_a_small_version_goes_inside_a_message(line: tuple[Courier, Actor], monkeypatch: pytest.MonkeyPatch) -> None:
    sender, actor = line
    monkeypatch.setattr(courier.ray, "put", lambda packed: "an object")
    assert isinstance(sender.put(np.zeros(SMALL, np.uint8)), np.ndarray)
    assert sender.put(np.zeros(SMALL + 1, np.uint8)) == "an object"
    sender.send("b", Credit("r", 0, b""))
    sender.send("b", Version("v", 1, np.zeros(8, np.uint8), []))
    sender.step()
    assert actor.heard() == [[0, 1]]


def test_calls_that_ray_gave_up_are_made_again_with_all_after_them(
    line: tuple[Courier, Actor], answers: list[Any]
) -> None:
    sender, actor = line
    answers.append(ray.exceptions.ActorUnavailableError("the link is cut", None))
    for number in range(2):
        sender.send("b", Credit("r", number, b""))
        sender.send("b", Deliver("r", number, [np.zeros(WHOLE, np.uint8)]))
    assert sender.step(), "the first is given up"
    assert actor.heard() == [[0, 0], [1, 1]]
    assert not sender.step()
    assert actor.heard() == [[0, 0], [1, 1], [0, 0], [1, 1]]


@pytest.mark.usefixtures("answers")
def test_who_is_slow_to_answer_is_called_less_often(
    line: tuple[Courier, Actor], monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, actor = line
    with monkeypatch.context() as silence:
        silence.setattr(courier.ray, "wait", lambda refs, timeout: ([], refs))
        for number in range(AHEAD + 5):
            sender.send("b", Credit("r", number, b""))
            sender.step()
    assert actor.heard() == [[number] for number in range(AHEAD)]
    sender.step()
    assert actor.heard()[AHEAD:] == [list(range(AHEAD, AHEAD + 5))]
