"""Asks and answers between processes: whoever dies, no ask is lost, none is answered twice, and old answers fool nobody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.env import AgentGroup
from shoal.api.policy import Decision, Policy, Request
from shoal.streams.inference import Answer, Ask
from shoal.streams.inference_rings import SLOTS, AskLine, RingInference, inference_layouts
from shoal.streams.transports.memory import MemoryRing

LANES, WIDTH = 3, 4
GROUP = AgentGroup(("a",), spaces.Dict({"x": spaces.Box(-1, 1, (2,), np.float32)}), spaces.Box(-1, 1, (2,), np.float32))


class Remembering(Policy):
    """Has one of everything: state, extras, noise."""

    noise_size = 2
    extras = {"log_prob": (), "pair": (2,)}

    def initial_state(self, batch: int) -> torch.Tensor:
        return torch.zeros(batch, 5)

    def act(self, request: Request, *, explore: bool) -> Decision:
        raise NotImplementedError


def rings(mask: int | None = WIDTH) -> tuple[MemoryRing, MemoryRing]:
    ask, answer = inference_layouts(GROUP, Remembering(), LANES, mask)
    return MemoryRing(ask, SLOTS), MemoryRing(answer, SLOTS)


def an_ask(number: float, mask: np.ndarray | None = None) -> Ask:
    return Ask(
        observation={"x": np.full((LANES, 2), number, np.float32)},
        first=np.array([True, False, True]),
        noise=np.full((LANES, 2), 0.25, np.float32),
        state=np.full((LANES, 5), -number, np.float32),
        action_mask=mask,
    )


def an_answer(ask: Ask, version: int) -> Answer:
    """The observation back as the action."""
    x = ask.observation["x"]
    return Answer(x.copy(), {"log_prob": x[:, 0] * 2, "pair": x * 3}, np.full((LANES, 5), 7.0, np.float32), version)


def serve(line: AskLine, version: int = 0) -> bool:
    if not line.take():
        return False
    line.answer(an_answer(line.ask, version))
    return True


def test_it_arrives_who_must_decide() -> None:
    asks, answers = rings()
    client, line = RingInference(asks, answers), AskLine(asks, answers)
    client.ask(replace(an_ask(1.0), acting=np.array([False, True, False])))
    assert line.take()
    np.testing.assert_array_equal(line.ask.acting, [False, True, False])


def test_everything_arrives() -> None:
    asks, answers = rings()
    client, line = RingInference(asks, answers), AskLine(asks, answers)
    for number in range(1, 8):
        assert client.pin(number + 10)
        assert not line.take()
        mask = np.arange(LANES * WIDTH).reshape(LANES, WIDTH) % (number + 1) == 0
        client.ask(an_ask(number, mask))
        assert client.answer(0.0) is None
        assert line.take()
        assert line.round == number + 10
        np.testing.assert_array_equal(line.ask.action_mask, mask)
        np.testing.assert_array_equal(line.ask.first, [True, False, True])
        assert line.ask.acting is not None
        assert line.ask.acting.all(), "all must decide, where nothing is said"
        assert (line.ask.state == -number).all()
        line.answer(an_answer(line.ask, version=number * 100))
        answer = client.answer(0.0)
        assert answer is not None
        assert answer.version == number * 100
        assert (answer.action == number).all()
        assert (answer.extras["pair"] == number * 3).all()
        assert (answer.state == 7).all()
        assert client.answer(0.0) is None


def test_a_mask_that_is_left_out_allows_everything_again() -> None:
    asks, answers = rings()
    client, line = RingInference(asks, answers), AskLine(asks, answers)
    for number in range(4):
        client.ask(an_ask(number, np.zeros((LANES, WIDTH), np.bool_) if number < 2 else None))
        assert line.take()
        assert line.ask.action_mask is not None
        assert line.ask.action_mask.all() == (number >= 2)
        line.answer(an_answer(line.ask, 0))
        assert client.answer(0.0) is not None


def test_a_world_without_masks_has_none() -> None:
    asks, answers = rings(mask=None)
    client, line = RingInference(asks, answers), AskLine(asks, answers)
    client.ask(an_ask(1))
    assert line.take()
    assert line.ask.action_mask is None


@pytest.mark.parametrize("moment", ["before it took", "before it answered", "between answer and free", "after"])
def test_a_worker_dies(moment: str) -> None:
    asks, answers = rings()
    client, line = RingInference(asks, answers), AskLine(asks, answers)
    client.ask(an_ask(1))
    if moment != "before it took":
        assert line.take()
    if moment == "between answer and free":
        slot = answers.begin(0.0)
        assert slot is not None
        slot.arrays["action"][:], slot.arrays["note"][:] = 1, (1, 0)
        answers.post(slot)
    if moment == "after":
        line.answer(an_answer(line.ask, 0))
    second = AskLine(asks, answers)
    assert serve(second) == moment.startswith("before")
    assert not serve(second)
    answer = client.answer(0.0)
    assert answer is not None
    assert (answer.action == 1).all()
    assert client.answer(0.0) is None
    assert asks.posted == asks.freed == answers.posted
    client.ask(an_ask(2))
    assert serve(second)


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("taken", [False, True])
def test_an_actor_dies_and_its_successor_passes_over_the_answer_to_the_dead(answered: bool, taken: bool) -> None:
    asks, answers = rings()
    line = AskLine(asks, answers)
    first = RingInference(asks, answers)
    first.ask(an_ask(1))
    if answered:
        assert serve(line)
        assert not taken or first.answer(0.0) is not None
    second = RingInference(asks, answers)
    second.ask(an_ask(2))
    while serve(line):
        pass
    answer = second.answer(0.0)
    assert answer is not None
    assert (answer.action == 2).all()
    second.ask(an_ask(3))
    assert asks.posted - asks.freed == 1
    assert serve(line)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["ask", "take", "serve", "hear", "worker dies", "actor dies"]), max_size=60))
def test_whoever_dies_in_whichever_order(moves: list[str]) -> None:
    asks, answers = rings()
    client, line = RingInference(asks, answers), AskLine(asks, answers)
    number, waiting, served = 0, False, 0
    for move in moves:
        if move == "ask" and not waiting and asks.posted - asks.freed < SLOTS:
            number, waiting = number + 1, True
            client.ask(an_ask(number))
        elif move == "take":
            line.take()
        elif move == "serve" and answers.posted - answers.freed < SLOTS:
            served += serve(line)
        elif move == "hear" and waiting and (answer := client.answer(0.0)) is not None:
            assert (answer.action == number).all()
            waiting = False
        elif move == "worker dies":
            line = AskLine(asks, answers)
        elif move == "actor dies":
            client, waiting = RingInference(asks, answers), False
        assert served == answers.posted <= asks.posted
    while client.answer(0.0) is None and serve(line):
        pass
    assert answers.posted == asks.posted or not waiting
