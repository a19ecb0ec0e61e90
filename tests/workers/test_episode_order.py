"""In exact runs an update is evaluated by the episodes of the rounds that it learned from, whoever speaks first."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from shoal.api.env import Episode
from shoal.api.experiment import Experiment
from shoal.api.messages import Episodes, Updated
from shoal.api.metric import Last
from shoal.streams.control import ControlEnd, parse
from shoal.streams.sample import Account
from shoal.workers.controller import Controller
from shoal.workers.decisions import WriteRow


def written(controller: Controller) -> list[dict[str, Any]]:
    """The rows that are due; the account is empty."""
    rows = []
    while controller.todo:
        if isinstance(controller.todo.popleft(), WriteRow):
            row = controller.row(Account(0, {"inserted": 0}, 0))
            rows.append({name: value for name, value in row.items() if name.startswith("rollout/")})
    return rows


def episode(producer: int, round_: int, number: int) -> Episode:
    returns = {"agent": np.array([1000.0 * round_ + 100 * producer + number])}
    told = {"rollout/arm": Last(10.0 * round_ + producer)}
    return Episode(0, 1 + number, returns, producer=producer, round=round_, told=told)


def rows(exact: bool, seed: int) -> list[dict[str, Any]]:
    """Three Envs, each at a pace of its own, up to two rounds ahead of the update."""
    experiment = Experiment.parse({"env": {"id": "CartPole-v1"}, "name": "x", "placement": {"exact": exact}})
    chance, controller, found = random.Random(seed), Controller(experiment, ["agent"]), []
    done = [0, 0, 0]
    for version in range(1, 6):
        while min(done) < version or chance.random() < 0.5:
            producer = chance.choice([p for p in range(3) if done[p] < version + 2])
            for number in range(30):
                controller.receive(Episodes(1, episodes=[episode(producer, done[producer], number)]))
            done[producer] += 1
            if min(done) == version + 2:
                break
        controller.receive(Updated("agent", version, 0, version))
        found += written(controller)
    return found


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

    ControlEnd(Line()).send(Episodes(5, {3: {"a": 7}, 4: {"a": 8}}, [episode(3, 6, 0)]))  # type: ignore[arg-type]
    heard = parse(sent[0])
    assert isinstance(heard, Episodes)
    assert (heard.steps, heard.rounds) == (5, {3: {"a": 7}, 4: {"a": 8}})
    (ended,) = heard.episodes
    assert (ended.producer, ended.round, ended.told) == (3, 6, {"rollout/arm": Last(63.0)})
