"""Calls to other machines go together, in order, and again. Ray's answers are made up; the calls are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="the extra `cluster` is not installed")

import ray

from shoal.streams.transports.ray import courier
from shoal.streams.transports.ray.courier import AHEAD, WHOLE, Courier


class Actor:
    """Writes down what it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, method: str) -> Any:
        return Method(lambda *args: self.calls.append((method, args)) or len(self.calls))

    def heard(self) -> list[list[Any]]:
        """Call by call, the first arguments of what came with it."""
        return [[inner[1] for _, inner in args[0]] if method == "many" else [args[1]] for method, args in self.calls]


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
        sender.send("b", "credit", number, b"books")
    assert sender.busy("b")
    assert actor.heard() == []
    assert sender.step()
    assert actor.heard() == [[0, 1, 2, 3, 4]]
    assert actor.calls[0][1][0][0] == ("credit", ("a", 0, b"books"))
    assert not sender.step()
    assert len(actor.calls) == 1


@pytest.mark.usefixtures("answers")
def test_large_calls_and_references_wait_for_nobody_and_overtake_nobody(line: tuple[Courier, Actor]) -> None:
    sender, actor = line
    sender.send("b", "deliver", 0, [np.zeros(10, np.uint8)])
    sender.send("b", "deliver", 1, [np.zeros(10, np.uint8), np.zeros(WHOLE, np.uint8)])
    assert actor.heard() == [[0, 1]]
    sender.send("b", "credit", 2, b"")
    sender.send("b", "version", 3, ray.ObjectRef(b"0" * 28))
    assert actor.heard() == [[0, 1], [2], [3]]


def test_calls_that_ray_gave_up_are_made_again_with_all_after_them(
    line: tuple[Courier, Actor], answers: list[Any]
) -> None:
    sender, actor = line
    answers.append(ray.exceptions.ActorUnavailableError("the link is cut", None))
    for number in range(2):
        sender.send("b", "credit", number, b"")
        sender.send("b", "deliver", number, np.zeros(WHOLE, np.uint8))
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
            sender.send("b", "credit", number, b"")
            sender.step()
    assert actor.heard() == [[number] for number in range(AHEAD)]
    sender.step()
    assert actor.heard()[AHEAD:] == [list(range(AHEAD, AHEAD + 5))]
