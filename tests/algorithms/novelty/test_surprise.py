"""Random network distillation: numpy references, statistics that are really used, a target that never learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from shoal.algorithms.novelty.embedding import Embedding
from shoal.algorithms.novelty.surprise import EVERY, Surprise


def same(value: Tensor) -> Tensor:
    return value


def make(width: int = 3) -> Surprise:
    torch.manual_seed(0)
    return Surprise(width, [8])


def slow_network(network: torch.nn.Module, x: np.ndarray) -> np.ndarray:
    state = {name: value.numpy() for name, value in network.state_dict().items()}
    hidden = np.maximum(x @ state["0.linears.0.weight"].T + state["0.linears.0.bias"], 0)
    return hidden @ state["1.weight"].T + state["1.bias"]


def test_errors_are_of_the_normalised_and_clipped_observation() -> None:
    surprise = make()
    random = np.random.default_rng(1)
    rows = (random.normal(size=(400, 3)) * [1.0, 100.0, 0.01] + [0.0, 500.0, 3.0]).astype(np.float32)
    surprise.update_inputs(torch.from_numpy(rows), same)
    counted = rows[::EVERY].astype(np.float64)
    seen = rows[:50].copy()
    seen[0] = 1e6
    with torch.no_grad():
        found = surprise.errors(torch.from_numpy(seen)).numpy()
    scaled = np.clip((seen - counted.mean(0)) / counted.std(0), -5, 5)
    apart = slow_network(surprise.predictor, scaled) - slow_network(surprise.target, scaled)
    assert found.tolist() == pytest.approx((apart**2).mean(1).tolist(), rel=1e-3)
    raw = slow_network(surprise.predictor, seen) - slow_network(surprise.target, seen)
    assert not np.allclose(found, (raw**2).mean(1), rtol=0.1), "the normaliser matters here"


def test_the_running_error_is_a_mean_at_first_and_then_follows() -> None:
    surprise, random = make(), np.random.default_rng(2)
    batches = random.gamma(2.0, size=(150, 30))
    mean = square = 0.0
    for number, errors in enumerate(batches, 1):
        surprise.update_errors(torch.from_numpy(errors), same)
        pace = max(1 / number, 0.01)
        mean += pace * (errors.mean() - mean)
        square += pace * ((errors**2).mean() - square)
    assert float(surprise.mean) == pytest.approx(mean)
    assert float(surprise.square) == pytest.approx(square)
    seen = torch.randn(20, 3)
    with torch.no_grad():
        found, errors = surprise(seen), surprise.errors(seen)
    spread = (square - mean**2) ** 0.5
    assert found.tolist() == pytest.approx((1 + (errors.double().numpy() - mean) / spread).tolist(), rel=1e-5)


def test_before_anything_was_learnt_nothing_surprises() -> None:
    surprise = make()
    with torch.no_grad():
        assert surprise(torch.randn(4, 3)).tolist() == [1.0] * 4
        surprise.update_errors(torch.full((5,), 0.7), same)
        assert surprise(torch.randn(4, 3)).tolist() == [1.0] * 4, "no spread yet"
        surprise.update_errors(torch.zeros(0), same)
    assert float(surprise.updates) == 1


def test_the_target_never_learns_and_what_was_seen_surprises_less_than_what_was_not() -> None:
    surprise = make(6)
    assert not list(surprise.target.parameters())
    before = {name: value.clone() for name, value in surprise.target.state_dict().items()}
    optimiser = torch.optim.Adam(surprise.parameters(), lr=3e-3)
    places = torch.eye(6)
    for _ in range(300):
        rows = places[torch.randint(0, 5, (32,))]
        surprise.update_inputs(rows, same)
        errors = surprise.errors(rows)
        surprise.update_errors(errors.detach(), same)
        optimiser.zero_grad()
        errors.mean().backward()
        optimiser.step()
    assert all(torch.equal(value, before[name]) for name, value in surprise.target.state_dict().items())
    with torch.no_grad():
        found = surprise(places)
    assert found[5] > found[:5].max() + 3
    assert found[:5].mean() == pytest.approx(1.0, abs=1.0)


# ---------------------------------------------------------------- embedding


def test_the_loss_of_inverse_dynamics() -> None:
    torch.manual_seed(1)
    embedding = Embedding("inverse", 4, 3, [8], 3)
    before, after, action = torch.randn(7, 4), torch.randn(7, 4), torch.randint(0, 3, (7,))
    answer = embedding.loss(before, after, action)
    assert answer is not None
    with torch.no_grad():
        both = torch.cat([embedding(before), embedding(after)], -1)
        assert embedding.guess is not None
        logits = embedding.guess(both).double().numpy()
    odds = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert float(answer[0].detach()) == pytest.approx(-np.log(odds[np.arange(7), action]).mean(), rel=1e-5)
    assert float(answer[1]) == pytest.approx((odds.argmax(1) == action.numpy()).mean())
    nothing = embedding.loss(before[:0], after[:0], action[:0])
    assert nothing is not None
    assert float(nothing[0].detach()) == 0.0


def test_embeddings_learn_what_actions_move_and_leave_the_rest_out() -> None:
    """Two numbers are moved by the action, two are noise ten times as large."""
    torch.manual_seed(2)
    embedding = Embedding("inverse", 4, 3, [32], 3)
    optimiser = torch.optim.Adam(embedding.parameters(), lr=3e-3)
    moves = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    for _ in range(1000):
        action = torch.randint(0, 3, (64,))
        place = torch.randn(64, 2)
        before = torch.cat([place, 10 * torch.randn(64, 2)], 1)
        after = torch.cat([place + moves[action], 10 * torch.randn(64, 2)], 1)
        answer = embedding.loss(before, after, action)
        assert answer is not None
        optimiser.zero_grad()
        answer[0].backward()
        optimiser.step()
    assert float(answer[1]) > 0.8
    with torch.no_grad():
        by_place = (embedding(torch.tensor([[1.0, 0, 0, 0]])) - embedding(torch.zeros(1, 4))).norm()
        by_noise = (embedding(torch.tensor([[0.0, 0, 1, 0]])) - embedding(torch.zeros(1, 4))).norm()
    assert by_place > 2 * by_noise


@pytest.mark.parametrize(("kind", "width"), [("random", 3), ("observation", 4)])
def test_fixed_embeddings(kind: str, width: int) -> None:
    embedding = Embedding(kind, 4, 3, [8], 2)  # type: ignore[arg-type]
    assert not list(embedding.parameters())
    assert embedding.width == width
    seen = torch.randn(5, 4)
    assert embedding(seen).shape == (5, width)
    assert embedding.loss(seen, seen, torch.zeros(5, dtype=torch.int64)) is None
