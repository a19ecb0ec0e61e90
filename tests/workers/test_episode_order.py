"""In exact runs an update is judged by the episodes of the rounds that it learned from, whoever speaks first."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from shoal.api.env import Episode
from shoal.api.experiment import Experiment
from shoal.api.metric import Last
from shoal.api.worker import Report
from shoal.streams.control import ControlEnd, parse
from shoal.streams.sample import Account
from shoal.workers.controller import Controller


class Around:
    """Nothing around the controller, but an empty book."""

    def accounts(self) -> Account:
        return Account(0, {"inserted": 0}, 0)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class Rows:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, row: dict[str, Any]) -> None:
        self.rows.append({name: value for name, value in row.items() if name.startswith("rollout/")})

    def close(self) -> None:
        return


def episode(producer: int, round_: int, number: int) -> Episode:
    returns = {"agent": np.array([1000.0 * round_ + 100 * producer + number])}
    told = {"rollout/arm": Last(10.0 * round_ + producer)}
    return Episode(0, 1 + number, returns, producer=producer, round=round_, told=told)


def rows(exact: bool, seed: int) -> list[dict[str, Any]]:
    """Three Envs, each at a pace of its own, up to two rounds ahead of the update."""
    experiment = Experiment.parse({"env": {"id": "CartPole-v1"}, "name": "x", "placement": {"exact": exact}})
    sink, chance = Rows(), random.Random(seed)
    controller = Controller(experiment, ["agent"], sink, Around())  # type: ignore[arg-type]
    done = [0, 0, 0]
    for version in range(1, 6):
        while min(done) < version or chance.random() < 0.5:
            producer = chance.choice([p for p in range(3) if done[p] < version + 2])
            for number in range(30):
                controller.receive(Report(True, episodes=[episode(producer, done[producer], number)]))
            done[producer] += 1
            if min(done) == version + 2:
                break
        controller.receive(Report(True, policy="agent", version=version))
    return sink.rows


@pytest.mark.parametrize("exact", [True, False])
def test_who_speaks_first(exact: bool) -> None:
    first, *others = (rows(exact, seed) for seed in range(5))
    assert all(other == first for other in others) is exact
    if exact:
        assert [row["rollout/episodes"] for row in first] == [90, 180, 270, 360, 450]
        assert [row["rollout/arm"] for row in first] == [2.0, 12.0, 22.0, 32.0, 42.0]


def test_what_belongs_to_an_episode_is_sent_with_it() -> None:
    sent: list[bytes] = []

    class Line:
        send_bytes = staticmethod(sent.append)

    ControlEnd(Line()).report(Report(True, 5, {3: 7, 4: 8}, [episode(3, 6, 0)]))  # type: ignore[arg-type]
    heard = parse(sent[0])
    assert isinstance(heard, Report)
    assert heard.rounds == {3: 7, 4: 8}
    (ended,) = heard.episodes
    assert (ended.producer, ended.round, ended.told) == (3, 6, {"rollout/arm": Last(63.0)})
