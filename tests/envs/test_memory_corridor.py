"""The corridor: its rules, its optimum, and what nobody without memory can beat."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.envs.native.memory_corridor import (
    CORRIDOR,
    JUNCTION,
    LEFT,
    RIGHT,
    TURN_LEFT,
    TURN_RIGHT,
    WALK,
    MemoryCorridor,
)

COPIES = 400


def played(length: int, act: object, *, seed: int = 1) -> tuple[list[float], list[int]]:
    """Returns and lengths of the first episode of every copy; `act(place, cue)` gives the actions."""
    env = MemoryCorridor(COPIES, length=length)
    step, returns, lengths = env.reset(seed), {}, {}
    cue = step.turns["agent"].observation[:, 0].argmax(-1)
    while len(returns) < COPIES:
        place = step.turns["agent"].observation[:, 0].argmax(-1)
        cue = np.where(place <= RIGHT, place, cue)
        step = env.step({"agent": act(place, cue)[:, None]})  # type: ignore[operator]
        for episode in step.episodes:
            returns.setdefault(episode.row, float(episode.returns["agent"][0]))
            lengths.setdefault(episode.row, episode.length)
    return list(returns.values()), list(lengths.values())


@pytest.mark.parametrize("length", [1, 2, 10])
def test_memory_earns_the_optimum(length: int) -> None:
    returns, lengths = played(
        length, lambda place, cue: np.where(place == JUNCTION, np.where(cue == LEFT, TURN_LEFT, TURN_RIGHT), WALK)
    )
    assert set(returns) == {MemoryCorridor.best_return}
    assert set(lengths) == {length + 1}


@pytest.mark.parametrize("turn", [TURN_LEFT, TURN_RIGHT])
@pytest.mark.parametrize("waits", [None, LEFT, RIGHT])
def test_no_memory_earns_half_at_most(turn: int, waits: int | None) -> None:
    """Every deterministic way to play by what is seen that gets anywhere; a mixture of them earns no more than the best."""

    def act(place: np.ndarray, cue: np.ndarray) -> np.ndarray:
        return np.where(place == JUNCTION, turn, np.where(place == waits, turn, WALK))

    returns, _ = played(4, act)
    assert np.mean(returns) < 0.5 + 4 * 0.5 / COPIES**0.5
    assert np.mean(returns) > 0.4 or waits is not None


def test_turning_early_and_walking_on_change_nothing_and_patience_ends() -> None:
    env = MemoryCorridor(2, length=3)
    seen = env.reset(5).turns["agent"].observation[:, 0].argmax(-1)
    env.step({"agent": np.array([[TURN_LEFT], [TURN_RIGHT]])})
    places = []
    for _ in range(15):
        step = env.step({"agent": np.full((2, 1), WALK)})
        places.append(step.turns["agent"].observation[0, 0].argmax())
    assert seen[0] in (LEFT, RIGHT)
    assert places[:14] == [CORRIDOR, CORRIDOR, *[JUNCTION] * 12]
    turn = step.turns["agent"]
    assert (turn.truncated.all(), turn.terminated.any(), turn.reward.any()) == (True, False, False)
    assert turn.final_observation[0, 0].argmax() == JUNCTION
    assert [episode.length for episode in step.episodes] == [16, 16]


def test_both_cues_come_up_alike() -> None:
    seen = MemoryCorridor(COPIES).reset(2).turns["agent"].observation[:, 0].argmax(-1)
    assert 0.4 < (seen == LEFT).mean() < 0.6


def test_a_corridor_has_a_length() -> None:
    with pytest.raises(InputError, match="length is at least 1"):
        make_env(EnvConfig(id="shoal/memory-corridor", kwargs={"length": 0}), 1)
