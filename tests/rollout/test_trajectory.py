"""The trajectory builder against a slow list of what happened, in random envs: ends of both kinds, both autoresets, turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api.algorithm import Needs
from shoal.api.env import AgentGroup
from shoal.api.fragment import Fragment
from shoal.rollout.trajectory import TrajectoryBuilder, View
from shoal.streams.inference import Answer
from shoal.streams.sample import Posted, SampleReader, SampleWriter, fragment_layout
from shoal.streams.transports.memory import MemoryRing

GROUP = AgentGroup(("a",), spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(10**9))


class CountingPolicy:
    """Only what a layout asks for: one extra, and a state that counts decisions."""

    extras = {"note": ()}

    def initial_state(self, batch: int):  # type: ignore[no-untyped-def]
        import torch

        return torch.zeros(batch, 1)


@dataclass
class Transition:
    observation: float
    action: int
    first: bool
    reward: float = 0.0
    following: float | None = None
    terminated: bool = False
    truncated: bool = False


@dataclass
class World:
    """Lanes that act, idle and end at random; every observation is a number of its own."""

    lanes: int
    autoreset: str
    turns: bool
    random: np.random.Generator
    counter: int = 0
    history: list[list[Transition]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history = [[] for _ in range(self.lanes)]
        self.open: list[Transition | None] = [None] * self.lanes
        self.first = [True] * self.lanes
        self.idle_reset = [False] * self.lanes
        self.decisions = np.zeros((self.lanes, 1), np.float32)
        self.view = self._view()

    def number(self) -> float:
        self.counter += 1
        return float(self.counter)

    def _view(self) -> View:
        shape = (self.lanes,)
        acting = self.random.random(shape) < 0.6 if self.turns else np.ones(shape, np.bool_)
        observation = np.array([[self.number()] for _ in range(self.lanes)], np.float32)
        zeros = np.zeros(shape, np.bool_)
        return View(observation, np.zeros(shape, np.float32), zeros, zeros.copy(), acting, None, None)

    def decide(self) -> Answer:
        """The acting lanes decide; an action is the count of the lane's decisions."""
        for lane in np.nonzero(self.view.acting)[0]:
            seen, action = float(self.view.observation[lane, 0]), int(self.decisions[lane, 0])
            self.open[lane] = Transition(seen, action, self.first[lane])
            self.first[lane] = False
        action = self.decisions[:, 0].astype(np.int64)
        return Answer(
            action, {"note": self.decisions[:, 0] * 2}, self.decisions + self.view.acting[:, None], self.counter
        )

    def remember(self) -> None:
        self.decisions = self.decisions + self.view.acting[:, None].astype(np.float32)

    def step(self) -> View:
        view = self._view()
        view.reward[:] = self.random.integers(1, 100, self.lanes)
        final = np.zeros_like(view.observation)
        for lane in range(self.lanes):
            self._step_lane(lane, view, final)
        if self.autoreset == "same":
            view.final_observation = final
        self.view = view
        return view

    def _step_lane(self, lane: int, view: View, final: np.ndarray) -> None:
        open_ = self.open[lane]
        if self.idle_reset[lane]:
            self.idle_reset[lane] = False
            return
        draw = self.random.random()
        ended = draw < 0.25
        view.terminated[lane], view.truncated[lane] = draw < 0.12, 0.10 <= draw < 0.25
        if ended:
            final[lane] = self.number()
            self.first[lane] = True
            if self.autoreset == "next":
                view.observation[lane], view.acting[lane] = final[lane], False
                self.idle_reset[lane] = True
        if open_ is None:
            return
        open_.reward += float(view.reward[lane])
        if ended or view.acting[lane]:
            open_.terminated, open_.truncated = bool(view.terminated[lane]), bool(view.truncated[lane])
            if not open_.terminated:
                open_.following = float(final[lane, 0] if ended else view.observation[lane, 0])
            self.history[lane].append(open_)
            self.open[lane] = None


def collect(fragment: Fragment, lane: int) -> list[Transition]:
    rows = np.nonzero(fragment.valid[:, lane])[0]
    return [
        Transition(
            float(fragment.observation[row, lane, 0]),
            int(fragment.action[row, lane]),
            bool(fragment.first[row, lane]),
            float(fragment.reward[row, lane]),
            None if fragment.terminated[row, lane] else float(fragment.observation[row + 1, lane, 0]),
            bool(fragment.terminated[row, lane]),
            bool(fragment.truncated[row, lane]),
        )
        for row in rows
    ]


def check_notes(posted: Posted) -> None:
    """Extras belong to their decision; the stored state is the one before row 0; counts are right."""
    fragment = posted.fragment
    valid = fragment.valid
    assert np.array_equal(fragment.extras["note"][valid], 2.0 * fragment.action[valid])
    assert int(posted.header["rows"]) == valid.sum()
    for lane in np.nonzero(valid[0])[0]:
        assert fragment.state[lane, 0] == fragment.action[0, lane]


def run(needs: Needs, world: World, steps: int, **rewards: Any) -> tuple[list[list[Transition]], int]:
    ring = MemoryRing(fragment_layout(GROUP, needs, CountingPolicy(), world.lanes, None), 1)  # type: ignore[arg-type]
    reader = SampleReader([ring])
    builder = TrajectoryBuilder(needs, np.arange(world.lanes), SampleWriter(ring, 0), **rewards)
    got: list[list[Transition]] = [[] for _ in range(world.lanes)]
    counted = 0
    for _ in range(steps):
        assert builder.begin(world.decisions)
        assert np.array_equal(builder.first, world.first)
        builder.decide(world.view, world.decide(), world.decisions)
        world.remember()
        if builder.observe(world.step(), steps=world.lanes):
            taken = reader.take(0.0)
            assert taken is not None
            check_notes(taken[0])
            counted += int(taken[0].header["steps"])
            for lane in range(world.lanes):
                got[lane] += collect(taken[0].fragment, lane)
            reader.free()
    return got, counted


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    lanes=st.integers(1, 4),
    unroll=st.integers(2, 9),
    bootstrap=st.integers(1, 3),
    burn_in=st.integers(0, 3),
    autoreset=st.sampled_from(["same", "next"]),
    turns=st.booleans(),
)
def test_every_transition_once_and_as_it_happened(
    seed: int, lanes: int, unroll: int, bootstrap: int, burn_in: int, autoreset: str, turns: bool
) -> None:
    world = World(lanes, autoreset, turns, np.random.default_rng(seed))
    got, _ = run(Needs(unroll, bootstrap, burn_in), world, 80)
    for mine, truth in zip(got, world.history, strict=True):
        assert mine == truth[: len(mine)]
        assert len(mine) >= len(truth) - (unroll + bootstrap)


def test_rewards_are_clipped_one_by_one() -> None:
    """Every reward of the environment is 1 to 99: those of a decision that waits for its turn add up after they were clipped."""
    world = World(3, "same", False, np.random.default_rng(5))
    got, _ = run(Needs(4), world, 60, clip_reward=30)
    for mine, truth in zip(got, world.history, strict=True):
        assert [each.reward for each in mine] == [min(each.reward, 30) for each in truth[: len(mine)]]
        assert any(each.reward > 30 for each in truth)
    taking_turns = World(2, "same", True, np.random.default_rng(5))
    got, _ = run(Needs(4), taking_turns, 60, clip_reward=0.5)
    sums = {each.reward for lane in got for each in lane}
    assert all(total % 0.5 == 0 for total in sums)
    assert max(sums) > 0.5


def test_rewards_are_scaled_and_then_clipped() -> None:
    world = World(3, "same", False, np.random.default_rng(5))
    got, _ = run(Needs(4), world, 60, reward_scale=0.5, clip_reward=30)
    for mine, truth in zip(got, world.history, strict=True):
        assert [each.reward for each in mine] == [min(each.reward / 2, 30) for each in truth[: len(mine)]]


@pytest.mark.parametrize("autoreset", ["same", "next"])
def test_no_transition_crosses_a_reset(autoreset: str) -> None:
    world = World(3, autoreset, False, np.random.default_rng(0))
    got, steps = run(Needs(8), world, 200)
    ends = 0
    for lane in got:
        for before, after in zip(lane, lane[1:], strict=False):
            ended = before.terminated or before.truncated
            ends += ended
            assert after.first == ended
            if not ended:
                assert before.following == after.observation
            elif before.following is not None:
                assert before.following != after.observation
    assert ends > 50
    assert steps > 0


def test_without_credit_the_actor_waits() -> None:
    needs = Needs(2)
    ring = MemoryRing(fragment_layout(GROUP, needs, CountingPolicy(), 1, None), 1)  # type: ignore[arg-type]
    reader = SampleReader([ring])
    builder = TrajectoryBuilder(needs, np.arange(1), SampleWriter(ring, 0))
    world = World(1, "same", False, np.random.default_rng(1))
    world.random = np.random.default_rng(99)
    posted = False
    while not posted:
        assert builder.begin(world.decisions)
        builder.decide(world.view, world.decide(), world.decisions)
        world.remember()
        posted = builder.observe(world.step(), 1)
    assert not builder.begin(world.decisions)
    taken = reader.take(0.0)
    assert taken is not None
    assert not builder.begin(world.decisions)
    reader.free()
    assert builder.begin(world.decisions)
