"""IMPALA, APPO, A2C and A3C: their updates against slow references, alone and as replicas, and learning on toy environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from shoal.algorithms import ALGORITHMS
from shoal.algorithms.actor_critic.policy_gradient import PolicyGradient
from shoal.algorithms.learner import SoloLearner
from shoal.api.algorithm import NonFiniteError, Task
from shoal.api.fragment import Fragment
from shoal.base.config import Named
from shoal.base.errors import InputError
from tests.algorithms.batches import GROUP, GRU, MLP, fragment, learned
from tests.algorithms.replicas import MeetingLearner, shares, together

NAMES = ("impala", "appo", "a2c", "a3c")
SMALL = {"appo": {"minibatch": 12, "epochs": 2}}


def build(name: str, lanes: int = 4, model: Named = MLP, replicas: int = 1, **settings: Any) -> PolicyGradient:
    cls = ALGORITHMS.load(name)
    config = cls.Config.parse({"unroll": 6, **SMALL.get(name, {}), **settings})
    algorithm: PolicyGradient = cls(config, model, Task(GROUP, lanes, seed=3, replicas=replicas))
    return algorithm


def aged(batch: Fragment, spread: float = 0.5) -> Fragment:
    """As if another policy had acted."""
    random = torch.Generator().manual_seed(0)
    batch.extras["log_prob"] = batch.extras["log_prob"] - spread * torch.randn(batch.reward.shape, generator=random)
    return batch


def gradient_of_update(algorithm: PolicyGradient, batch: Fragment) -> torch.Tensor:
    """Of its first step."""
    captured: list[torch.Tensor] = []
    apply = algorithm.optimiser.apply
    assert algorithm.flat.gradients is not None
    gradients = algorithm.flat.gradients
    algorithm.optimiser.apply = lambda: (captured.append(gradients.clone()), apply())[1]  # type: ignore[method-assign]
    algorithm.update(batch, SoloLearner())
    return captured[0]


# ---------------------------------------------------------------- the update


def slow_judgement(
    batch: Fragment, value: np.ndarray, ratio: np.ndarray, gamma: float, lam: float
) -> tuple[np.ndarray, np.ndarray]:
    """V-trace with rho_bar = c_bar = 1, backwards, lane by lane (Espeholt et al. 2018, remark 1) -> targets, gains."""
    target, gain = value.copy(), np.zeros_like(value)
    for b in range(value.shape[1]):
        for t in reversed(range(len(value) - 1)):
            if not batch.valid[t, b]:
                continue
            reward, trace = float(batch.reward[t, b]), min(1.0, ratio[t, b])
            over, cut = bool(batch.terminated[t, b]), bool(batch.truncated[t, b])
            future, corrected = (0.0, 0.0) if over else (value[t + 1, b], value[t + 1, b] if cut else target[t + 1, b])
            target[t, b] += trace * (reward + gamma * future - value[t, b]) + gamma * lam * trace * (corrected - future)
            gain[t, b] = reward + gamma * corrected - value[t, b]
    return target, gain


@pytest.mark.parametrize("name", ["impala", "a2c"])
@pytest.mark.parametrize("model", [MLP, GRU])
def test_the_step_is_the_textbook_gradient(name: str, model: Named) -> None:
    settings = {"entropy": 0.02, "max_grad_norm": 1e9, "gamma": 0.9, "lam": 0.8 if name == "impala" else 1.0}
    algorithm, twin = build(name, model=model, **settings), build(name, model=model, **settings)
    batch = aged(fragment(algorithm)) if name == "impala" else fragment(algorithm)
    new = twin.policy.evaluate(batch.observation, batch.state, batch.first, batch.action, None)
    ratio = (new.log_prob - batch.extras["log_prob"]).exp().detach().numpy()
    target, gain = slow_judgement(batch, new.value.detach().numpy(), ratio, 0.9, settings["lam"])
    loss = torch.zeros(())
    rows = np.argwhere(batch.valid.numpy())
    for t, b in rows:
        advantage = min(1.0, ratio[t, b]) * gain[t, b]
        error = new.value[t, b] - target[t, b]
        loss = loss - advantage * new.log_prob[t, b] + 0.5 * 0.5 * error**2 - 0.02 * new.entropy[t, b]
    (loss / len(rows)).backward()
    assert twin.flat.gradients is not None
    torch.testing.assert_close(gradient_of_update(algorithm, batch), twin.flat.gradients, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("model", [MLP, GRU])
def test_the_first_step_of_appo_is_the_textbook_gradient(model: Named) -> None:
    settings = {"minibatch": 24, "epochs": 1, "max_grad_norm": 1e9, "normalise_advantages": False, "lam": 0.8}
    algorithm, twin = build("appo", model=model, **settings), build("appo", model=model, **settings)
    batch = aged(fragment(algorithm))
    new = twin.policy.evaluate(batch.observation, batch.state, batch.first, batch.action, None)
    ratio = (new.log_prob - batch.extras["log_prob"]).exp()
    target, gain = slow_judgement(batch, new.value.detach().numpy(), ratio.detach().numpy(), 0.99, 0.8)
    loss = torch.zeros(())
    rows = np.argwhere(batch.valid.numpy())
    for t, b in rows:
        bound = ratio[t, b].detach().clamp(0.8, 1.2)
        policy = ratio[t, b] * gain[t, b] if ratio[t, b] * gain[t, b] <= bound * gain[t, b] else bound * gain[t, b]
        loss = loss - policy + 0.5 * 0.5 * (new.value[t, b] - target[t, b]) ** 2
    (loss / len(rows)).backward()
    assert twin.flat.gradients is not None
    torch.testing.assert_close(gradient_of_update(algorithm, batch), twin.flat.gradients, atol=1e-5, rtol=1e-4)


def test_on_fresh_experience_impala_is_a2c() -> None:
    settings = {"lam": 1.0, "lr": 1e-3, "entropy": 0.01}
    one, two = build("impala", **settings), build("a2c", **settings)
    steps = [gradient_of_update(algorithm, fragment(algorithm)) for algorithm in (one, two)]
    torch.testing.assert_close(*steps, atol=1e-5, rtol=1e-4)


def test_parts_deal_out_the_lanes() -> None:
    impala = build("impala", parts=4)
    batch = fragment(impala)
    seen = [part.lanes.tolist() for part in impala.one_pass._cut(batch)]  # type: ignore[attr-defined]
    assert sorted(lane for (lane,) in seen) == [0, 1, 2, 3]
    metrics = impala.update(batch, SoloLearner()).metrics
    assert metrics["train/minibatches"].value == 4
    with pytest.raises(InputError, match="algorithm.parts = 5 is more than the 4 lanes of a trainer: try 4"):
        build("impala", parts=5)
    with pytest.raises(InputError, match="the 2 lanes of a trainer: try 2"):
        build("impala", parts=3, replicas=2)


@pytest.mark.parametrize("name", ["impala", "appo"])
def test_rho_is_the_bounded_ratio_before_the_update(name: str) -> None:
    algorithm = build(name, rho_bar=1.1)
    fresh = algorithm.update(fragment(algorithm), SoloLearner()).metrics
    assert fresh["train/rho"].value == pytest.approx(1.0, abs=1e-5)
    assert fresh["train/rho_clipped"].value == 0.0
    batch = fragment(algorithm)
    now = batch.extras["log_prob"].clone()
    ratio = (now - aged(batch).extras["log_prob"]).exp()[batch.valid]
    metrics = algorithm.update(batch, SoloLearner()).metrics
    assert metrics["train/rho"].value == pytest.approx(ratio.clamp(max=1.1).mean().item(), rel=1e-4)
    assert metrics["train/rho_clipped"].value == pytest.approx((ratio > 1.1).float().mean().item())


def test_what_they_need() -> None:
    needs = {name: build(name).needs for name in NAMES}
    assert {name: need.max_lag for name, need in needs.items()} == {"impala": 1, "appo": 1, "a2c": 0, "a3c": 0}
    assert {name for name, need in needs.items() if need.agree == "hogwild"} == {"a3c"}


@pytest.mark.parametrize("name", NAMES)
def test_a_gradient_that_is_not_finite_changes_nothing(name: str) -> None:
    algorithm = build(name, **({"minibatch": 24} if name == "appo" else {}))
    batch = fragment(algorithm)
    batch.reward[0, 0] = float("inf")
    before = algorithm.flat.parameters.clone()
    with pytest.raises(NonFiniteError):
        algorithm.update(batch, SoloLearner())
    assert torch.equal(before, algorithm.flat.parameters)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", [MLP, GRU])
def test_state_dict_goes_on_bit_for_bit(name: str, model: Named) -> None:
    settings: dict[str, Any] = {"normalise_observations": True, "normalise_rewards": True, "model": model}
    if name == "impala":
        settings["parts"] = 2
    one = build(name, **settings)
    one.update(fragment(one), SoloLearner())
    two = build(name, **settings)
    two.load_state_dict({key: tensor.clone() for key, tensor in one.state_dict().items()})
    for algorithm in (one, two):
        algorithm.update(fragment(algorithm, seed=1), SoloLearner())
    assert torch.equal(one.flat.block, two.flat.block)
    assert not torch.equal(one.flat.block, build(name, **settings).flat.block)


# ---------------------------------------------------------------- replicas of the trainer


@pytest.mark.parametrize("name", ["impala", "appo", "a2c"])
@pytest.mark.parametrize("model", [MLP, GRU])
def test_two_replicas_learn_what_one_trainer_would(name: str, model: Named) -> None:
    settings: dict[str, Any] = {"model": model, "normalise_advantages": True, "normalise_rewards": True}
    if name == "appo":
        settings["minibatch"] = 24
    alone, pair = build(name, **settings), [build(name, replicas=2, **settings) for _ in range(2)]
    for seed in range(3):
        batch = aged(fragment(alone, seed=seed))
        batch.valid[:, 0] &= seed > 0  # replicas differ in rows
        alone.update(batch, SoloLearner())
        parts = shares(batch, 2)
        together(lambda rank, learner: pair[rank].update(parts[rank], learner))  # noqa: B023
    assert torch.equal(pair[0].flat.block, pair[1].flat.block)
    torch.testing.assert_close(pair[0].flat.parameters, alone.flat.parameters, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["impala", "appo", "a2c"])
def test_a_replica_without_rows_steps_along(name: str) -> None:
    settings: dict[str, Any] = {"normalise_advantages": True, "normalise_rewards": True}
    pair = [build(name, replicas=2, **settings) for _ in range(2)]
    before = pair[0].flat.block.clone()
    parts = shares(fragment(pair[0]), 2)
    parts[1].valid[:] = False

    def work(rank: int, learner: MeetingLearner) -> tuple[int, bool]:
        metrics = pair[rank].update(parts[rank], learner).metrics
        return learner.taken, "train/loss" in metrics

    (steps, _), (others, _) = counts = together(work)
    assert steps == others >= 1
    assert [has_loss for _, has_loss in counts] == [True, False]
    assert torch.equal(pair[0].flat.block, pair[1].flat.block)
    assert not torch.equal(pair[0].flat.block, before)


# ---------------------------------------------------------------- learning, on environments with known answers

FAST: dict[str, dict[str, Any]] = {
    "impala": {"unroll": 16, "lr": 5e-3},
    "appo": {"unroll": 16, "minibatch": 64, "lr": 3e-3},
    "a2c": {"unroll": 16, "lr": 5e-3},
    "a3c": {"unroll": 16, "lr": 5e-3},
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("world", "model", "updates", "bar"),
    [
        ("shoal/chain", "mlp", 120, 1.0),
        ("shoal/masked", "mlp", 3, 8.0),
        ("shoal/recall", "gru", 120, 1.0),
    ],
)
def test_learns(tmp_path: Any, name: str, world: str, model: str, updates: int, bar: float) -> None:
    settings = {"name": name, **FAST[name]}
    updates = updates // 2 if name == "appo" else updates  # of several steps each
    assert learned(tmp_path, world, settings, {"name": model, "hidden": [32]}, updates) >= bar


@pytest.mark.parametrize("name", ["impala", "appo"])
def test_learns_from_experience_four_versions_old(tmp_path: Any, name: str) -> None:
    settings = {"name": name, **FAST[name]}
    updates = 100 if name == "appo" else 200
    assert learned(tmp_path, "shoal/recall", settings, {"name": "gru", "hidden": [32]}, updates, max_lag=4) >= 1.0
