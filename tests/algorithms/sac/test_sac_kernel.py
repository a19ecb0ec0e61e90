"""SAC by hand: values, gradients and updates are those of autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from shoal.algorithms.kernels.dense import ROWS, Twins
from shoal.algorithms.learner import SoloLearner
from shoal.algorithms.sac import SAC
from shoal.algorithms.sac.kernel import SACKernel
from shoal.base.config import Named
from tests.algorithms.sac.test_sac import CHOICES, batch_of, disagreeing, make


def body(**settings: Any) -> Named:
    return Named.parse({"name": "mlp", "hidden": [12, 8], "activation": "relu", **settings})


def both(**settings: Any) -> tuple[SAC, SAC]:
    """By hand and by autograd, alike otherwise."""
    by_hand, by_torch = (disagreeing(make(temperature=0.7, **settings)) for _ in range(2))
    assert by_hand._by_hand is not None
    by_torch._by_hand = None
    return by_hand, by_torch


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("hidden", [[12, 8], [16], []])
@pytest.mark.parametrize("settings", [{}, {"n_step": 3}, {"prioritised": True}, {"learn_temperature": False}])
def test_updates_are_those_of_autograd(activation: str, hidden: list[int], settings: dict[str, Any]) -> None:
    by_hand, by_torch = both(model=body(activation=activation, hidden=hidden), **settings)
    for _ in range(6):
        said, wanted = {}, {}
        for algorithm, found in ((by_hand, said), (by_torch, wanted)):
            batch = batch_of(algorithm)
            batch.weights = torch.tensor([1.0, 0.5, 0.25, 0.8]) if settings.get("prioritised") else None
            update = algorithm.update(batch, SoloLearner())
            found |= {name: metric.value for name, metric in update.metrics.items()}
            priorities = [] if update.priorities is None else update.priorities.tolist()
            found |= {f"priority of {lane}": value for lane, value in enumerate(priorities)}
            for name in ("actor", "critic"):
                found[name] = getattr(algorithm, name).flat.gradients.clone()
        for name in ("actor", "critic"):
            ours, theirs = said.pop(name), wanted.pop(name)
            assert theirs.norm() > 1e-3
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
        assert said == pytest.approx(wanted, rel=1e-3, abs=1e-4)
    torch.testing.assert_close(by_hand.flat.parameters, by_torch.flat.parameters, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(by_hand.target.flat.parameters, by_torch.target.flat.parameters, rtol=1e-3, atol=1e-3)


def test_each_critic_goes_back_through_the_rows_in_which_it_is_the_lesser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both together through all that count, and not twice as many; few numbers of rows occur."""
    by_hand, _ = both()
    through: list[int] = []
    original = Twins._through

    def back(self: Twins, twin: int, up: torch.Tensor, *rest: Any) -> torch.Tensor:
        assert len(up) % ROWS == 0
        through.append(int((up != 0).sum()))
        return original(self, twin, up, *rest)

    monkeypatch.setattr(Twins, "_through", back)
    batch = batch_of(by_hand)
    by_hand.update(batch, SoloLearner())
    assert sum(through) == int(batch.valid.sum())
    assert min(through) > 0


def test_what_is_written_by_hand_is_for_known_networks_alone() -> None:
    assert isinstance(make()._by_hand, SACKernel)
    assert make(CHOICES)._by_hand is None
    assert make(model=body(activation="gelu"))._by_hand is None
    assert make(model=body(layer_norm=True))._by_hand is None


def test_parameters_may_move_into_memory_that_others_share() -> None:
    by_hand, by_torch = both()
    for algorithm in (by_hand, by_torch):
        for flat in (algorithm.flat, algorithm.critic.flat):
            flat.adopt(torch.zeros_like(flat.block), fill=True)
        algorithm.update(batch_of(algorithm), SoloLearner())
    torch.testing.assert_close(by_hand.flat.parameters, by_torch.flat.parameters, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(by_hand.critic.flat.parameters, by_torch.critic.flat.parameters, rtol=1e-3, atol=1e-4)
