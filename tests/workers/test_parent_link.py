"""A trainer's end of the exchange with a parent, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from shoal.api.experiment import Experiment
from shoal.program.expand import expand
from shoal.rollout.plans import Plans
from shoal.streams.transports.memory import MemoryMailbox
from shoal.workers.parent_link import (
    Down,
    ParentConfig,
    ParentLink,
    Up,
    down_shape,
    set_statistics,
    set_trained,
    sizes,
    statistics,
    trained,
    up_shape,
)


class Exchange:
    """A replica's link, and the other end of its mailboxes."""

    def __init__(self, **settings: Any) -> None:
        experiment = Experiment.parse({
            "env": {"id": "CartPole-v1", "num_envs": 2}, "model": {"name": "mlp", "hidden": [8]},
            "algorithm": {"name": "ppo", "normalise_observations": True},
        })  # fmt: skip
        self.algorithm = Plans(expand(experiment))["agent"].algorithm
        size, features = sizes(self.algorithm)
        up, down = (
            MemoryMailbox(shape.nbytes, shape.versions)
            for shape in (up_shape(size, features), down_shape(size, features))
        )
        self.now = 0.0
        self.link = ParentLink(self.algorithm, up, down, ParentConfig(**settings), lambda: self.now)
        self.up, self.down = Up(up, size, features), Down(down, size, features)

    @property
    def vector(self) -> np.ndarray:
        return torch.cat(trained(self.algorithm)).numpy()

    def learn(self, amount: float) -> None:
        set_trained(self.algorithm, torch.from_numpy(self.vector + np.float32(amount)))

    def join(self) -> np.ndarray:
        start = np.random.default_rng(1).normal(size=len(self.vector)).astype(np.float32)
        self.down.give(None, start, statistics(self.algorithm), answered=False)
        assert self.link.begin(self.algorithm)
        return start


def test_it_begins_with_the_parents_weights_or_without_after_a_while() -> None:
    exchange = Exchange(patience=60)
    assert not exchange.link.may_begin()
    exchange.now = 60.0
    assert exchange.link.may_begin(), "it goes on alone"
    exchange.link.updated(exchange.algorithm, 100, 100)
    assert exchange.up.newest == -1, "but what it learns alone is no round"
    start = exchange.join()
    assert np.array_equal(exchange.vector, start)


@pytest.mark.parametrize(("every", "rounds"), [("2 updates", [2, 4]), ("25 steps", [3, 5]), (3.0, [3])])
def test_a_round_is_updates_or_steps_or_time(every: Any, rounds: list[int]) -> None:
    exchange = Exchange(every=every)
    exchange.join()
    given = []
    for updates in range(1, 6):
        exchange.now = float(updates)
        before = exchange.up.newest
        exchange.link.updated(exchange.algorithm, updates, 10 * updates)
        if exchange.up.newest > before:
            given.append(updates)
            exchange.down.give(exchange.vector, exchange.vector, statistics(exchange.algorithm), answered=True)
            exchange.link.begin(exchange.algorithm)
    assert given == rounds


def test_a_round_of_episodes_is_over_when_the_uplink_says_so() -> None:
    exchange = Exchange(every="3 episodes")
    start = exchange.join()
    exchange.link.updated(exchange.algorithm, 1, 10)
    assert exchange.up.newest == -1
    exchange.down.ask()
    assert not exchange.link.begin(exchange.algorithm), "nothing comes with it"
    assert np.array_equal(exchange.vector, start)
    exchange.link.updated(exchange.algorithm, 2, 20)
    found = exchange.up.read()
    assert found is not None
    assert found[:3] == (2, 20, exchange.down.newest)
    exchange.down.give(start, start, statistics(exchange.algorithm), answered=True)
    exchange.link.begin(exchange.algorithm)
    exchange.link.updated(exchange.algorithm, 3, 30)
    assert exchange.up.newest == 1, "one question, one round"


def test_what_was_learned_meanwhile_stays() -> None:
    exchange = Exchange(every="1 update")
    start = exchange.join()
    exchange.learn(0.5)
    exchange.link.updated(exchange.algorithm, 1, 10)
    found = exchange.up.read()
    assert found is not None
    assert found[:3] == (1, 10, 0), "updates, steps, and the answer that it had seen"
    sent = found[3]
    np.testing.assert_allclose(sent, start + 0.5, rtol=1e-6)
    exchange.learn(0.25)
    assert exchange.link.may_begin(), "it waits for nobody"
    exchange.down.give(sent, start, statistics(exchange.algorithm), answered=True)
    exchange.link.begin(exchange.algorithm)
    np.testing.assert_allclose(exchange.vector, start + 0.25, rtol=1e-4, atol=1e-5)
    assert not exchange.link.begin(exchange.algorithm), "once"


def test_who_waits_goes_to_the_answer_to_the_bit() -> None:
    exchange = Exchange(every="1 update", waits=True, patience=5)
    exchange.join()
    exchange.learn(0.1)
    exchange.link.updated(exchange.algorithm, 1, 10)
    assert not exchange.link.may_begin()
    answer = np.random.default_rng(2).normal(size=len(exchange.vector)).astype(np.float32)
    exchange.down.give(exchange.vector, answer, statistics(exchange.algorithm), answered=True)
    assert exchange.link.may_begin()
    exchange.link.begin(exchange.algorithm)
    assert exchange.vector.tobytes() == answer.tobytes()
    exchange.link.updated(exchange.algorithm, 2, 20)
    exchange.now = 5.0
    assert exchange.link.may_begin(), "no longer than patience"


def test_it_takes_its_share() -> None:
    exchange = Exchange(every="1 update", alpha=0.25)
    start = exchange.join()
    exchange.link.updated(exchange.algorithm, 1, 10)
    exchange.down.give(start, start + 1, statistics(exchange.algorithm), answered=True)
    exchange.link.begin(exchange.algorithm)
    np.testing.assert_allclose(exchange.vector, start + 0.25, rtol=1e-5, atol=1e-6)


def test_after_a_break_no_progress_is_lost() -> None:
    exchange = Exchange(every="1 update")
    start = exchange.join()
    exchange.learn(0.5)
    exchange.link.updated(exchange.algorithm, 1, 10)
    exchange.learn(0.5)
    exchange.down.give(start, start + 3, statistics(exchange.algorithm), answered=False)  # the round was not taken
    exchange.link.begin(exchange.algorithm)
    np.testing.assert_allclose(exchange.vector, start + 4, rtol=1e-4, atol=1e-5)
    exchange.link.updated(exchange.algorithm, 2, 20)
    assert exchange.up.newest == 2


def test_news_of_the_normalisers_are_carried_over() -> None:
    exchange = Exchange(every="1 update")
    exchange.join()
    rows = torch.randn(50, 1, 4) * 3 + 1
    normaliser = exchange.algorithm.policy.normaliser

    def observe(part: torch.Tensor) -> None:
        normaliser.update(part, torch.ones(part.shape[:2], dtype=torch.bool), lambda sums: sums)

    observe(rows[:20])
    given = statistics(exchange.algorithm)
    exchange.link.updated(exchange.algorithm, 1, 10)
    observe(rows[20:])
    everything = statistics(exchange.algorithm)
    exchange.down.give(exchange.vector, exchange.vector, given, answered=True)
    exchange.link.begin(exchange.algorithm)
    np.testing.assert_allclose(statistics(exchange.algorithm), everything, rtol=1e-5)
    set_statistics(exchange.algorithm, given)
    assert np.array_equal(statistics(exchange.algorithm), given)
