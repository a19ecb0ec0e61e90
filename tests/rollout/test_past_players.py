"""Who plays as an earlier version: which one, drawn anew for each episode and kept to its end."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from shoal.api.policy import Decision, Policy, Request
from shoal.base.flat import Flat
from shoal.rollout.players import PastInference
from shoal.streams.inference import Ask
from shoal.streams.past import Pool
from shoal.streams.transports.memory import MemoryMailbox

LANES, NEWEST, SIZE = 4000, 7, 4


class Says(Policy):
    """Its action is its only weight."""

    noise_size = 1
    extras: dict[str, tuple[int, ...]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.word = nn.Parameter(torch.zeros(1))

    def initial_state(self, batch: int) -> None:
        return None

    def act(self, request: Request, *, explore: bool) -> Decision:
        return Decision(self.word.expand(len(request.noise)).long(), {}, None)


def player(*, spread: bool, latest: float) -> PastInference:
    """Number n says n."""
    policy = Says()
    box = MemoryMailbox(Flat(policy, gradients=False).nbytes, NEWEST + 1)
    for number in range(NEWEST + 1):
        with torch.no_grad():
            policy.word.fill_(number)
        box.publish(number, Flat(policy, gradients=False).block.numpy())
    client = PastInference(
        Says(),
        box,
        LANES,
        pool=Pool([0], SIZE, spread=spread),
        newest=lambda round_: round_,
        explore=True,
        latest=latest,
    )
    assert client.pin(NEWEST)
    return client


def said(client: PastInference, first: np.ndarray, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).random((LANES, 2), np.float32)
    client.ask(Ask(np.zeros((LANES, 1), np.float32), first, noise, None, None))
    answer = client.answer(0.0)
    assert answer is not None
    return answer.action


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("latest", [0.0, 0.5, 1.0])
def test_the_newest_has_its_share(spread: bool, latest: float) -> None:
    words = said(player(spread=spread, latest=latest), np.ones(LANES, bool), 0)
    met = Pool([0], SIZE, spread=spread).at(NEWEST)
    for number in met:
        share = (1 - latest) / SIZE + latest * (number == NEWEST)
        assert np.mean(words == number) == pytest.approx(share, abs=0.03)
    assert set(words) <= set(met)
    assert (met[0] == 0) == spread


def test_an_episode_is_played_by_one_and_the_next_by_another() -> None:
    client = player(spread=True, latest=0.5)
    before = said(client, np.ones(LANES, bool), 0)
    first = np.arange(LANES) % 2 == 0
    after = said(client, first, 1)
    assert np.array_equal(before[~first], after[~first])
    assert np.mean(before[first] != after[first]) > 0.3
