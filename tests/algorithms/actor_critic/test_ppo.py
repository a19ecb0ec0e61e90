"""PPO's update against a slow reference, its parts one by one, and learning on environments with known answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from shoal.algorithms.actor_critic.minibatches import Experience, LaneMinibatches, RowMinibatches
from shoal.algorithms.actor_critic.ppo import PPO, PPOConfig
from shoal.algorithms.learner import SoloLearner
from shoal.api.algorithm import NonFiniteError, Task
from shoal.api.env import AgentGroup
from shoal.api.experiment import Experiment
from shoal.api.policy import Request
from shoal.base.config import Named, Schedule
from shoal.base.errors import InputError
from shoal.runs.train import train
from tests.algorithms.batches import GROUP, GRU, MLP, fragment, learned
from tests.algorithms.replicas import MeetingLearner, shares, together


def build(
    lanes: int = 4,
    model: Named = MLP,
    group: AgentGroup = GROUP,
    horizon: int | None = None,
    replicas: int = 1,
    **settings: Any,
) -> PPO:
    defaults = {"unroll": 6, "minibatch": 12, "epochs": 2}
    task = Task(group, lanes, seed=3, horizon=horizon, replicas=replicas)
    return PPO(PPOConfig.parse({**defaults, **settings}), model, task)


def test_one_pass_over_the_whole_batch_is_the_textbook_gradient() -> None:
    ppo = build(epochs=1, minibatch=24, entropy=0.01, max_grad_norm=1e9, normalise_advantages=False)
    batch = fragment(ppo)
    twin = build(epochs=1, minibatch=24)
    policy = twin.policy
    evaluated = policy.evaluate(batch.observation, None, batch.first, batch.action, None)
    value = evaluated.value.detach().numpy()
    loss = torch.zeros(())
    rows = np.argwhere(batch.valid.numpy())
    for t, b in rows:
        advantage, discount = 0.0, 1.0
        for k in range(t, len(value) - 1):
            following = 0.0 if batch.terminated[k, b] else 0.99 * value[k + 1, b]
            advantage += discount * (float(batch.reward[k, b]) + following - value[k, b])
            discount *= 0.99 * 0.95
            if batch.terminated[k, b] or batch.truncated[k, b] or not batch.valid[k + 1, b]:
                break
        ratio = (evaluated.log_prob[t, b] - batch.extras["log_prob"][t, b]).exp()
        error = evaluated.value[t, b] - (advantage + value[t, b])
        loss = loss - ratio * advantage + 0.5 * 0.5 * error**2 - 0.01 * evaluated.entropy[t, b]
    (loss / len(rows)).backward()
    expected = twin.flat.gradients
    captured: list[torch.Tensor] = []
    ppo.optimiser.apply = lambda: captured.append(ppo.flat.gradients.clone())  # type: ignore[union-attr, method-assign]
    ppo.update(batch, SoloLearner())
    assert expected is not None
    torch.testing.assert_close(captured[0], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("minibatch", [24, 6])
def test_an_update_by_hand_equals_one_by_autograd(minibatch: int) -> None:
    """The same minibatches in the same order, with rows that do not count left out of them."""
    blocks, metrics = [], []
    for by_hand in (True, False):
        ppo = build(minibatch=minibatch)
        if not by_hand:
            ppo.passes.kernel = None
        batch = fragment(ppo)
        batch.valid[1, 0] = False
        metrics.append(ppo.update(batch, SoloLearner()).metrics)
        blocks.append(ppo.flat.parameters.detach().clone())
    torch.testing.assert_close(*blocks, atol=1e-5, rtol=1e-4)
    for name in ("train/loss", "train/approx_kl", "train/entropy_loss", "train/grad_norm"):
        assert metrics[0][name].value == pytest.approx(metrics[1][name].value, abs=1e-5, rel=1e-4)


def test_a_minibatch_in_pieces_is_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradient and numbers of a costly model's minibatch do not depend on how it is cut."""
    found = []
    for size in (1000, 5):
        monkeypatch.setattr("shoal.algorithms.actor_critic.clipped.PIECE", size)
        monkeypatch.setattr("shoal.models.mlp.MLPModel.costly", True)
        ppo = build(minibatch=24)
        assert ppo.passes.kernel is None  # actor and critic share a costly model
        (part,) = RowMinibatches(ppo.compute_advantages(fragment(ppo), SoloLearner()), 1).epoch(
            np.random.default_rng(0)
        )
        loss = ppo.passes.loss(part, 0.05)
        rows = loss.rows
        loss.backward()
        loss = loss.detached()
        assert rows == loss.rows == part.rows > 20
        assert ppo.flat.gradients is not None
        found.append((loss, ppo.flat.gradients.clone()))
    (whole, gradient), (cut, same) = found
    torch.testing.assert_close(same, gradient, atol=1e-6, rtol=1e-5)
    for name in ("total", "policy", "value", "entropy", "log_ratio"):
        torch.testing.assert_close(torch.as_tensor(getattr(cut, name)), torch.as_tensor(getattr(whole, name)))


@pytest.mark.parametrize("entropy", [0.0, 0.05])
@pytest.mark.parametrize("hidden", [[], [8], [16, 8, 4]])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_gradients_by_hand_equal_autograd(entropy: float, hidden: list[int], activation: str) -> None:
    ppo = build(model=Named(name="mlp", hidden=hidden, activation=activation), minibatch=24)  # type: ignore[call-arg]
    assert ppo.passes.kernel is not None
    ppo.update(fragment(ppo, seed=5), SoloLearner())  # away from the start, where every ratio is one
    batch = fragment(ppo)
    batch.extras["log_prob"] += 0.5 * torch.randn(batch.reward.shape, generator=torch.Generator().manual_seed(0))
    experience = ppo.compute_advantages(batch, SoloLearner())
    (part,) = RowMinibatches(experience, 1).epoch(np.random.default_rng(0))
    results = []
    kernel = ppo.passes.kernel
    for ppo.passes.kernel in (kernel, None):
        assert ppo.flat.gradients is not None
        ppo.flat.gradients.zero_()
        loss = ppo.passes.loss(part, entropy)
        loss.backward()
        results.append((loss.detached(), ppo.flat.gradients.clone()))
    (mine, by_hand), (theirs, by_autograd) = results
    torch.testing.assert_close(by_hand, by_autograd, atol=1e-6, rtol=1e-5)
    for name in ("total", "policy", "value", "entropy", "log_ratio"):
        ours, expected = (torch.as_tensor(getattr(loss, name)).flatten() for loss in (mine, theirs))
        torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"value_clip": 0.2},
        {"shared": True},
        {"model": GRU},
        {"model": Named(name="mlp", hidden=[8], activation="elu")},  # type: ignore[call-arg]
        {"model": Named(name="mlp", hidden=[8], layer_norm=True)},  # type: ignore[call-arg]
        {"group": AgentGroup(("agent",), GROUP.observation_space, spaces.Box(-1, 1, (2,), np.float32))},
        {"group": AgentGroup(("agent",), spaces.Discrete(3), GROUP.action_space)},
    ],
)
def test_other_policies_are_left_to_autograd(settings: dict[str, Any]) -> None:
    assert build(**settings).passes.kernel is None


def test_updates_are_functions_of_seed_and_batch() -> None:
    blocks = []
    for _ in range(2):
        ppo = build(normalise_observations=True, normalise_rewards=True)
        for seed in range(3):
            ppo.update(fragment(ppo, seed=seed), SoloLearner())
        blocks.append(ppo.flat.block.clone())
    assert torch.equal(*blocks)


@pytest.mark.parametrize("model", [MLP, GRU])
def test_state_dict_goes_on_bit_for_bit(model: Named) -> None:
    settings: dict[str, Any] = {"normalise_observations": True, "normalise_rewards": True, "model": model}
    one = build(**settings)
    one.update(fragment(one), SoloLearner())
    two = build(**settings)
    two.load_state_dict({name: tensor.clone() for name, tensor in one.state_dict().items()})
    for ppo in (one, two):
        ppo.update(fragment(ppo, seed=1), SoloLearner())
    assert torch.equal(one.flat.block, two.flat.block)
    assert one.state_dict().keys() == two.state_dict().keys()


def test_minibatches_cover_valid_rows_exactly_once() -> None:
    ppo = build()
    batch = fragment(ppo)
    experience = ppo.compute_advantages(batch, SoloLearner())
    parts = list(RowMinibatches(experience, 2).epoch(np.random.default_rng(0)))
    assert sorted(part.advantage.numel() for part in parts) == [11, 12]
    got = torch.cat([part.log_prob.flatten() for part in parts])
    expected = batch.extras["log_prob"][batch.valid]
    assert torch.equal(got.sort().values, expected.sort().values)


def test_lane_minibatches_keep_lanes_whole() -> None:
    lanes, rows = 6, 5
    ids = torch.arange(lanes).repeat(rows, 1).float()
    experience = Experience(
        ids, ids, ids, ids, ids, ids, ids.bool(), None, torch.arange(lanes).float(), torch.ones(rows, lanes).bool()
    )
    seen = []
    for part in LaneMinibatches(experience, 3).epoch(np.random.default_rng(1)):
        assert part.action.shape == (rows, 2)
        assert torch.equal(part.action[0], part.state)
        seen += part.state.tolist()
    assert sorted(seen) == list(range(lanes))


@pytest.mark.parametrize(
    ("settings", "lanes", "count", "words"),
    [
        ({"minibatch": 12}, 4, 2, ""),
        (
            {"minibatch": 11},
            4,
            2,
            "minibatch = 11 does not divide the batch of 24 (4 lanes x 6 steps): it is cut into 2 of",
        ),
        ({"minibatch": 100}, 4, 1, "it is not cut"),
        ({"minibatch": 4}, 1, 2, "cut into 2 of about 3 rows"),
        ({"minibatch": 12, "model": GRU}, 4, 2, ""),
        ({"minibatch": 8, "model": GRU}, 4, 3, "cut into 3 of about 8 rows"),
        ({"minibatch": 2, "model": GRU}, 4, 4, "cut into 4 of about 6 rows"),
        ({"minibatch": 6, "model": GRU, "replicas": 2}, 4, 2, "cut into 2 of about 12 rows"),
    ],
)
def test_any_minibatch_fits_any_batch(settings: dict[str, Any], lanes: int, count: int, words: str) -> None:
    ppo = build(lanes, **settings, epochs=1)
    if ppo.task.replicas == 1:
        assert ppo.update(fragment(ppo), SoloLearner()).metrics["train/minibatches"].value == count
    assert (words in ppo.notes[0]) if words else ppo.notes == ()


def test_a_schedule_without_an_end() -> None:
    with pytest.raises(InputError, match="algorithm.lr has no end"):
        build(4, lr=Schedule(start=1e-3, end=0.0))


def test_schedules_follow_environment_steps() -> None:
    ppo = build(lr={"start": 1e-3, "end": 0.0}, entropy={"start": 0.1, "end": 0.0, "steps": 50}, horizon=100)
    learner = SoloLearner()
    learner.steps = 25
    metrics = ppo.update(fragment(ppo), learner).metrics
    assert metrics["train/learning_rate"].value == pytest.approx(7.5e-4)
    assert metrics["train/entropy_coef"].value == pytest.approx(0.05)


def test_kl_stop_ends_the_passes() -> None:
    free, bound = build(epochs=20, lr=0.05), build(epochs=20, lr=0.05, target_kl=0.01)
    counts = [ppo.update(fragment(ppo), SoloLearner()).metrics["train/minibatches"].value for ppo in (free, bound)]
    assert counts[0] == 40
    assert 1 <= counts[1] < 20


def test_value_clip_changes_the_update() -> None:
    blocks = []
    for clip in (None, 0.01):
        ppo = build(value_clip=clip, lr=0.01, epochs=4)
        ppo.update(fragment(ppo), SoloLearner())
        blocks.append(ppo.flat.block)
    assert not torch.equal(*blocks)


def test_gradients_are_bounded() -> None:
    ppo = build(max_grad_norm=0.01, epochs=1)
    norms = []
    apply = ppo.optimiser.apply
    ppo.optimiser.apply = lambda: (norms.append(float(ppo.flat.gradients.norm())), apply())[1]  # type: ignore
    metrics = ppo.update(fragment(ppo), SoloLearner()).metrics
    assert max(norms) <= 0.01 * 1.001
    assert metrics["train/grad_norm"].value > 0.01


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    ppo = build(minibatch=24)
    batch = fragment(ppo)
    batch.extras["log_prob"][0, 0] = -float("inf")
    before = ppo.flat.parameters.clone()
    with pytest.raises(NonFiniteError):
        ppo.update(batch, SoloLearner())
    assert torch.equal(before, ppo.flat.parameters)


def test_statistics_change_between_versions_only() -> None:
    ppo = build(normalise_observations=True, normalise_rewards=True)
    assert ppo.policy.normaliser is not None
    statistics = ppo.policy.normaliser.state_dict
    before = {name: value.clone() for name, value in statistics().items()}
    ppo.passes.kernel = None
    loss = ppo.passes.loss
    during = []
    ppo.passes.loss = lambda *a: (during.append({n: v.clone() for n, v in statistics().items()}), loss(*a))[1]  # type: ignore
    batch = fragment(ppo)
    ppo.update(batch, SoloLearner())
    assert len(during) == 4
    assert all(torch.equal(seen[name], before[name]) for seen in during for name in before)
    assert not all(torch.equal(value, before[name]) for name, value in statistics().items())
    assert ppo.reward_scale is not None
    assert int(ppo.reward_scale.count) == int(batch.valid.sum())


def test_reward_scale_is_the_spread_of_discounted_sums() -> None:
    ppo = build(lanes=4, normalise_rewards=True)
    scale = ppo.reward_scale
    assert scale is not None
    sums, running = [], np.zeros(4)
    for seed in range(5):
        batch = fragment(ppo, seed=seed)
        for t in range(len(batch.reward)):
            for b in range(4):
                if batch.valid[t, b]:
                    running[b] = float(batch.reward[t, b]) + (0.0 if batch.first[t, b] else 0.99 * running[b])
                    sums.append(running[b])
        scale.update(batch, lambda x: x, gamma=0.99)
    assert float(scale.variance) == pytest.approx(np.var(sums), rel=1e-4)


# ---------------------------------------------------------------- replicas of the trainer


@pytest.mark.parametrize("model", [MLP, GRU])
def test_two_replicas_learn_what_one_trainer_would(model: Named) -> None:
    """All rows in one minibatch: the order of rows is then no matter."""
    settings: dict[str, Any] = {
        "model": model, "epochs": 3, "minibatch": 24, "target_kl": 0.5,
        "normalise_observations": True, "normalise_rewards": True,
    }  # fmt: skip
    alone, pair = build(**settings), [build(replicas=2, **settings) for _ in range(2)]
    for seed in range(3):
        batch = fragment(alone, seed=seed)
        batch.valid[:, 0] &= seed > 0  # replicas differ in rows
        alone.update(batch, SoloLearner())
        parts = shares(batch, 2)
        together(lambda rank, learner: pair[rank].update(parts[rank], learner))  # noqa: B023
    assert torch.equal(pair[0].flat.block, pair[1].flat.block)
    for name, expected in alone.policy.state_dict().items():
        got = pair[0].policy.state_dict()[name]
        # Counts of statistics are those of an average replica.
        torch.testing.assert_close(got * 2 if name.endswith("count") else got, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("model", [MLP, GRU])
def test_a_replica_without_rows_steps_along(model: Named) -> None:
    pair = [build(replicas=2, model=model, normalise_rewards=True, target_kl=9.0) for _ in range(2)]
    parts = shares(fragment(pair[0]), 2)
    parts[1].valid[:] = False

    metrics, fewer = together(lambda rank, learner: pair[rank].update(parts[rank], learner).metrics)
    assert torch.equal(pair[0].flat.block, pair[1].flat.block)
    assert "train/loss" in metrics
    assert "train/loss" not in fewer


def test_kl_stop_is_one_decision_of_all_replicas() -> None:
    pair = [build(replicas=2, epochs=20, lr=0.05, target_kl=0.01) for _ in range(2)]
    parts = shares(fragment(pair[0]), 2)
    parts[0].valid[2:, 1] = False

    def work(rank: int, learner: MeetingLearner) -> int:
        pair[rank].update(parts[rank], learner)
        return learner.taken

    one, other = together(work)
    assert one == other
    assert 1 <= one < 20


def test_a_batch_with_fewer_rows_than_minibatches() -> None:
    ppo = build(minibatch=2)
    batch = fragment(ppo)
    batch.valid[:, 1:] = False
    parts = list(RowMinibatches(ppo.compute_advantages(batch, SoloLearner()), 12).epoch(np.random.default_rng(0)))
    assert len(parts) == 12
    assert sum(part.rows for part in parts) == 5
    metrics = ppo.update(batch, SoloLearner()).metrics
    assert metrics["train/minibatches"].value == 2 * 5
    assert np.isfinite(metrics["train/loss"].value)


# ---------------------------------------------------------------- learning, on environments with known answers


def learn(root: Any, world: str, algorithm: dict[str, Any], model: str, updates: int) -> float:
    settings = {"name": "ppo", "unroll": 16, "minibatch": 64, "lr": 3e-3, **algorithm}
    return learned(root, world, settings, {"name": model, "hidden": [32]}, updates)


@pytest.mark.parametrize(
    ("world", "algorithm", "model", "updates", "bar"),
    [
        ("shoal/chain", {}, "mlp", 40, 1.0),
        ("shoal/target", {"normalise_rewards": True, "gamma": 0.0}, "mlp", 80, -0.1),
        ("shoal/target", {"squash": True, "normalise_observations": True, "gamma": 0.0}, "mlp", 80, -0.1),
        ("shoal/masked", {}, "mlp", 2, 8.0),
        ("shoal/recall", {}, "gru", 60, 1.0),
        ("shoal/recall", {}, "lstm", 60, 1.0),
        ("shoal/signal", {"entropy": 0.01}, "mlp", 60, 2.0),
    ],
)
def test_learns(tmp_path: Any, world: str, algorithm: dict[str, Any], model: str, updates: int, bar: float) -> None:
    assert learn(tmp_path, world, algorithm, model, updates) >= bar


def test_without_memory_recall_cannot_be_learned(tmp_path: Any) -> None:
    assert learn(tmp_path, "shoal/recall", {}, "mlp", 60) < 0.8


@pytest.mark.parametrize("autoreset", ["same", "next"])
def test_truncation_bootstraps_in_training(tmp_path: Any, autoreset: str) -> None:
    """A reward of 1 for ever, cut every few steps: its value is 1 / (1 - gamma), not the short sum that is seen."""
    from shoal.api.experiment import EnvConfig
    from shoal.checkpoints.store import CheckpointStore
    from shoal.program.expand import expand
    from shoal.rollout.plans import Plans, load_policy

    experiment = Experiment.parse(
        {
            "env": {"id": "shoal/cut", "num_envs": 8, "kwargs": {"autoreset": autoreset}},
            "algorithm": {"name": "ppo", "unroll": 16, "minibatch": 32, "lr": 3e-3, "gamma": 0.8, "lam": 0.9},
            "model": {"name": "mlp", "hidden": [32]},
            "stop": {"updates": 80},
            "name": "cut",
        }
    )
    outcome = train(experiment, root=tmp_path, quiet=True)
    found = CheckpointStore(outcome.folder / "checkpoints", keep=3).latest()
    program = expand(experiment)
    ppo = Plans(program)["agent"].algorithm
    load_policy(ppo, found.tensors, "agent")
    from shoal.envs import make_env

    env = make_env(EnvConfig.parse(experiment.env), 1)
    seen = torch.from_numpy(env.reset(0).turns["agent"].observation)
    with torch.no_grad():
        value = ppo.policy.values(seen, None, torch.ones(1, 1, dtype=torch.bool))  # type: ignore[attr-defined, operator]
    assert float(value) == pytest.approx(1 / (1 - 0.8), rel=0.1)


@pytest.mark.parametrize("how", ["shared", "separate", "recurrent", "scaled"])
def test_one_network_tells_values_with_its_decisions_and_judges_alike(how: str) -> None:
    settings = {"shared": how in ("shared", "scaled"), "normalise_values": how == "scaled"}
    ppo = build(model=GRU) if how == "recurrent" else build(**settings)
    batch = fragment(ppo)
    assert ("value" in ppo.policy.extras) == (how == "shared")
    if how != "shared":
        return
    expected = ppo.compute_advantages(batch, SoloLearner())
    values = ppo.policy.values(batch.observation, None, batch.first).detach()
    batch.extras["value"] = torch.where(batch.valid, values, torch.nan)
    given = ppo.compute_advantages(batch, SoloLearner())
    for name in ("value", "advantage", "target"):
        torch.testing.assert_close(getattr(given, name), getattr(expected, name))


def test_told_values_are_those_of_the_deciding_network() -> None:
    ppo = build(shared=True)
    seen, noise = torch.randn(5, 3), torch.rand(5, ppo.policy.noise_size)
    request = Request(seen, torch.ones(5, dtype=torch.bool), noise)
    told = ppo.policy.act(request, explore=True).extras["value"]
    torch.testing.assert_close(told, ppo.policy.values(seen[None], None, request.first[None])[0])
