"""A seat and its explorer: knobs hold for an episode, returns land on their lanes, columns are noted where they belong."""

from __future__ import annotations

import numpy as np

from shoal.api.algorithm import Needs
from shoal.api.env import Turn
from shoal.api.explorer import Explorer
from shoal.base.seeding import Noise
from shoal.rollout.seat import Seat
from shoal.rollout.trajectory import TrajectoryBuilder
from shoal.streams.inference import Answer, Ask, InferenceClient
from shoal.streams.sample import SampleReader, SampleWriter, fragment_layout
from shoal.streams.transports.memory import MemoryRing
from tests.algorithms.batches import GROUP
from tests.rollout.test_rollout import Silent

LANES = 3


class Counting(Explorer):
    """Each episode of a lane has a number; a decision notes it beside twice the raw extra."""

    def __init__(self) -> None:
        self.episodes = np.zeros(LANES)
        self.ended: list[tuple[int, float, float]] = []
        self.decided = np.zeros(LANES, np.int64)

    def begin(self, rows: np.ndarray) -> np.ndarray:
        self.episodes[rows] += 1
        return (10 * rows + self.episodes[rows]).astype(np.float32)[:, None]

    def shape(self, extras: dict[str, np.ndarray], knobs: np.ndarray, acting: np.ndarray) -> dict[str, np.ndarray]:
        self.decided += acting
        return {"episode": knobs[:, 0], "twice": 2 * extras["raw"]}

    def end(self, rows: np.ndarray, returns: np.ndarray) -> None:
        for row, earned in zip(rows.tolist(), returns.tolist(), strict=True):
            self.ended.append((row, float(self.episodes[row]), earned))


class Keeper(InferenceClient):
    """Keeps the knobs that it was asked with."""

    def __init__(self) -> None:
        self.knobs: list[list[float]] = []

    def pin(self, round_: int) -> bool:
        return True

    def ask(self, ask: Ask) -> None:
        assert ask.knobs is not None
        self.knobs.append(ask.knobs[:, 0].tolist())

    def answer(self, timeout: float) -> Answer | None:
        raw = np.arange(LANES, dtype=np.float32)
        return Answer(np.zeros(LANES, np.int64), {"raw": raw}, None, 0)


def turn(reward: list[float], terminated: list[bool], truncated: list[bool]) -> Turn:
    def column(values: list[float] | list[bool], kind: type) -> np.ndarray:
        return np.array(values, kind)[:, None]

    seen = np.zeros((LANES, 1, 3), np.float32)
    everyone = np.ones((LANES, 1), bool)
    return Turn(
        seen, column(reward, np.float32), column(terminated, bool), column(truncated, bool), everyone, None, seen
    )


def test_knobs_returns_and_columns() -> None:
    needs = Needs(5, stored_extras={"episode": (), "twice": ()})
    ring = MemoryRing(fragment_layout(GROUP, needs, Silent(), LANES, None), 1)  # type: ignore[arg-type]
    lanes, explorer, client = np.arange(LANES), Counting(), Keeper()
    builder = TrajectoryBuilder(needs, lanes, SampleWriter(ring, 0), clip_reward=1.0)
    seat = Seat("agent", "agent", client, Noise(0, "n", lanes, 1), None, builder, explorer=explorer)
    nothing = [False] * LANES
    seat.start(turn([0.0] * LANES, nothing, nothing))
    outcomes = [
        turn([1.0, 5.0, 0.0], nothing, nothing),
        turn([2.0, 6.0, 0.0], [False, True, False], nothing),
        turn([4.0, 7.0, 0.5], nothing, [True, False, False]),
    ]
    for outcome in outcomes:
        assert seat.ready()
        seat.ask()
        answer = client.answer(0.0)
        assert answer is not None
        seat.take(answer)
        seat.see(outcome, LANES)
    assert client.knobs == [[1, 11, 21], [1, 11, 21], [1, 12, 21]]
    assert explorer.ended == [(1, 1.0, 11.0), (0, 1.0, 7.0)], "raw rewards, not the clipped ones"
    assert explorer.decided.tolist() == [3, 3, 3]
    assert seat.ready()
    seat.ask()
    assert client.knobs[-1] == [2, 12, 21]
    seat.take(Answer(np.zeros(LANES, np.int64), {"raw": np.ones(LANES, np.float32)}, None, 0))
    assert seat.see(turn([0.0] * LANES, nothing, nothing), LANES)
    taken = SampleReader([ring]).take(0.0)
    assert taken is not None
    extras = taken[0].fragment.extras
    assert extras["episode"][:4, 1].tolist() == [11, 11, 12, 12]
    assert extras["episode"][[0, 1, 2, 4], 0].tolist() == [1, 1, 1, 2], "row 3 is the final observation"
    assert extras["twice"][:3, 2].tolist() == [4, 4, 4]
