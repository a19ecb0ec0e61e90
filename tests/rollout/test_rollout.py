"""A rollout asks early enough for a ring to overlap stepping and deciding, and not so early that it acts with an old version."""

from __future__ import annotations

import numpy as np

from shoal.api.algorithm import Needs
from shoal.api.experiment import EnvConfig
from shoal.base.seeding import Noise
from shoal.envs import make_env
from shoal.rollout.rollout import Progress, Rollout
from shoal.rollout.seat import Seat
from shoal.rollout.trajectory import TrajectoryBuilder
from shoal.streams.inference import Answer, Ask, InferenceClient
from shoal.streams.sample import SampleWriter, fragment_layout
from shoal.streams.transports.memory import MemoryRing

COPIES = 3


class Oracle(InferenceClient):
    """Decides when it is told to."""

    def __init__(self) -> None:
        self.asked, self.ready = 0, False
        self.pinned: list[int] = []

    def pin(self, round_: int) -> bool:
        self.pinned.append(round_)
        return True

    def ask(self, ask: Ask) -> None:
        self.asked += 1
        self.ready = False

    def answer(self, timeout: float) -> Answer | None:
        return Answer(np.zeros(COPIES, np.int64), {}, None, 0) if self.ready else None


class Silent:
    """All that a layout needs to know of a policy."""

    extras: dict[str, tuple[int, ...]] = {}

    def initial_state(self, batch: int) -> None:
        return None


def rollout_of(oracle: Oracle, needs: Needs) -> Rollout:
    env = make_env(EnvConfig(id="shoal/chain"), COPIES)
    [(name, group)] = env.groups.items()
    ring = MemoryRing(fragment_layout(group, needs, Silent(), COPIES, None), 2)  # type: ignore[arg-type]
    builder = TrajectoryBuilder(needs, np.arange(COPIES), SampleWriter(ring, 0))
    return Rollout(env, [Seat(name, name, oracle, Noise(0, "n", np.arange(COPIES), 1), None, builder)], seed=1)


def test_the_next_decision_is_asked_for_at_the_end_of_a_step() -> None:
    oracle, progress = Oracle(), Progress()
    rollout = rollout_of(oracle, Needs(4))
    assert rollout.advance(progress) == "answer"
    assert (oracle.asked, progress.steps) == (1, 0)
    oracle.ready = True
    assert rollout.advance(progress) is None
    assert (oracle.asked, progress.steps) == (2, COPIES)
    assert rollout.advance(progress) == "answer"
    assert oracle.asked == 2


def test_a_fragment_that_was_posted_ends_the_step() -> None:
    oracle, progress = Oracle(), Progress()
    rollout = rollout_of(oracle, Needs(2))
    while not progress.posted:
        assert rollout.advance(progress) in ("answer", None)
        oracle.ready = True
    assert (oracle.asked, oracle.pinned) == (2, [0])
    assert rollout.advance(progress) == "answer"
    assert (oracle.asked, oracle.pinned) == (3, [0, 1])
