"""SAC: values, losses and targets against slow ones straight from the papers, its parts, and its runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import shoal
from shoal.algorithms.learner import SoloLearner
from shoal.algorithms.sac import SAC, SACConfig
from shoal.algorithms.sac.critics import Critic, Stacked, Twins
from shoal.algorithms.sac.losses import soft_value, soft_value_of_discrete, temperature_loss
from shoal.algorithms.sac.sac import frozen
from shoal.api.algorithm import Task, Update
from shoal.api.env import AgentGroup
from shoal.api.experiment import Experiment
from shoal.api.fragment import Fragment
from shoal.api.policy import Request
from shoal.base.config import Named
from shoal.base.errors import InputError
from shoal.checkpoints.store import CheckpointStore
from tests.algorithms.batches import learned, summed
from tests.algorithms.sac.push import Push

SEES = spaces.Box(-5, 5, (3,), np.float32)
FORCES = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
CHOICES = spaces.Discrete(4, start=2)
SPACES = {"numbers": FORCES, "choices": CHOICES}
RELU = Named(name="mlp", hidden=[8, 8], activation="relu")  # type: ignore[call-arg]


def make(space: spaces.Space[Any] = FORCES, model: Named = RELU, **settings: Any) -> SAC:
    group = AgentGroup(("agent",), SEES, space)
    return SAC(SACConfig(**{"unroll": 6, "batch": 24, "lr": 1e-2, **settings}), model, Task(group, 4, 1))


def batch_of(algorithm: SAC, *, masked: bool = False) -> Fragment:
    """Four lanes in the builder's layout: an end of each kind, the final observation of a truncation, unfinished rows behind."""
    steps = algorithm.settings.n_step
    shape = (algorithm.settings.unroll + steps, 4)
    random = np.random.default_rng(4)
    valid, ends, first = np.ones(shape, bool), np.zeros((2, *shape), bool), np.zeros(shape, bool)
    valid[shape[0] - steps :] = False
    ends[0, 1, 1] = ends[1, 2, 0] = ends[0, 4, 2] = True
    valid[3, 0] = False
    first[0], first[4, 0], first[2, 1], first[5, 2] = True, True, True, True
    space, mask = algorithm.task.group.action_space, None
    if isinstance(space, spaces.Discrete):
        action = random.integers(2, 6, shape)
        action[3, 0] = 0  # nobody acted there, and it is no choice
        if masked:
            mask = random.random((*shape, 4)) < 0.6
            mask[np.arange(shape[0])[:, None], np.arange(4), np.maximum(action - 2, 0)] = True
    else:
        action = random.uniform(FORCES.low, FORCES.high, (*shape, 2)).astype(np.float32)
    return Fragment(
        observation=random.normal(size=(*shape, 3)).astype(np.float32), action=action,
        reward=random.normal(size=shape).astype(np.float32), terminated=ends[0], truncated=ends[1], valid=valid,
        first=first, version=np.zeros(shape, np.int64), extras={}, action_mask=mask, state=None, lanes=np.arange(4),
    ).map(torch.from_numpy)  # fmt: skip


def disagreeing(algorithm: SAC) -> SAC:
    """Give the target critics, and the policy, other numbers than they start with."""
    with torch.no_grad():
        algorithm.target.flat.parameters.mul_(-1.5)
        algorithm.flat.parameters.mul_(3.0)
    return algorithm


def judge(critics: Twins, observation: np.ndarray, action: np.ndarray | None) -> np.ndarray:
    """Both critics in numpy, for one row: relu layers, then a linear one -> `[2, outputs]`."""
    stack = critics.pair[0]
    assert isinstance(stack, Stacked)
    found = []
    for twin in range(2):
        x = observation if action is None else np.concatenate([observation, action])
        for i, (weight, bias) in enumerate(zip(stack.weights, stack.biases, strict=True)):
            x = x @ weight[twin].detach().numpy() + bias[twin, 0].detach().numpy()
            x = np.maximum(x, 0) if i < 2 else x
        found.append(x)
    return np.stack(found)


def lean(algorithm: SAC, observation: np.ndarray) -> np.ndarray:
    """The head's parameters for one row, in numpy."""
    x = observation
    for linear in algorithm.policy.model.dense.linears:
        x = np.maximum(x @ linear.weight.detach().numpy().T + linear.bias.detach().numpy(), 0)
    head = algorithm.policy.head.linear
    return x @ head.weight.detach().numpy().T + head.bias.detach().numpy()


def slow_weigh(
    algorithm: SAC, critics: Twins, observation: np.ndarray, noise: np.ndarray, mask: np.ndarray | None
) -> tuple[float, float]:
    """Soft value and entropy of the policy in one state, from the papers."""
    alpha, leaning = math.exp(float(algorithm.temperature.log.detach())), lean(algorithm, observation)
    if isinstance(algorithm.task.group.action_space, spaces.Discrete):
        allowed = np.ones(4, bool) if mask is None else mask
        probs = np.where(allowed, np.exp(leaning - leaning.max()), 0)
        probs /= probs.sum()
        q = judge(critics, observation, None).min(0)
        value = sum(p * (q[k] - alpha * math.log(p)) for k, p in enumerate(probs) if p > 0)
        return value, -sum(p * math.log(p) for p in probs if p > 0)
    mean, log_std = leaning[:2], np.clip(leaning[2:], -5, 2)
    z = torch.distributions.Normal(0.0, 1.0).icdf(torch.from_numpy(noise).double()).numpy()
    raw = mean + np.exp(log_std) * z
    density = (-0.5 * z**2 - log_std - 0.5 * math.log(2 * math.pi)).sum()
    log_prob = density - np.log(1 - np.tanh(raw) ** 2).sum()  # change of variables: divide by the slope of tanh
    return judge(critics, observation, np.tanh(raw)).min(0)[0] - alpha * log_prob, -log_prob


def slow_targets(algorithm: SAC, batch: Fragment, noise: np.ndarray) -> dict[tuple[int, int], float]:
    """Row by row: add up rewards until the episode ends or n are in, then value what the policy would do there."""
    config, found = algorithm.settings, {}
    for row, lane in np.argwhere(batch.valid.numpy()):
        total, discount, at = summed(batch, row, lane, config.gamma, config.n_step)
        mask = None if batch.action_mask is None else batch.action_mask[at, lane].numpy()
        seen = batch.observation[at, lane].numpy()
        value, _ = slow_weigh(algorithm, algorithm.target.module, seen, noise[at - 1, lane], mask)
        found[row, lane] = total + discount * value
    return found


CASES = [("numbers", False), ("choices", False), ("choices", True)]


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize(("kind", "masked"), CASES)
def test_targets(kind: str, masked: bool, steps: int) -> None:
    algorithm = disagreeing(make(SPACES[kind], n_step=steps, temperature=0.7))
    batch = batch_of(algorithm, masked=masked)
    rows, later = algorithm.rows(batch), algorithm._seen(batch, slice(1, None))
    assert int(rows.valid.sum()) == int(batch.valid.sum()) == rows.count
    noise, _ = algorithm.noise(later, rows.seen)
    target = algorithm.targets(batch, algorithm.following(later, noise))
    slow = slow_targets(algorithm, batch, noise.numpy())
    assert len(slow) >= 20
    for (row, lane), expected in slow.items():
        assert float(target[row, lane]) == pytest.approx(expected, abs=2e-4)
    metrics = algorithm.update(batch, SoloLearner()).metrics
    assert metrics["train/target_mean"].value == pytest.approx(np.mean(list(slow.values())), abs=2e-4)


class Watching(SoloLearner):
    """Keeps every gradient and the last loss, that of the temperature, and takes no step."""

    def __init__(self) -> None:
        super().__init__()
        self.heat = math.nan
        self.gradients: list[torch.Tensor] = []
        self.weights: list[float] = []

    def step(self, loss: Any, optimiser: Any, weight: float = 1.0) -> float:
        optimiser.flat.gradients.zero_()
        loss.backward()
        self.heat = float(loss.detach()) if isinstance(loss, torch.Tensor) else math.nan
        self.gradients.append(optimiser.flat.gradients.clone())
        self.weights.append(weight)
        return 0.0

    def losses(self, update: Update) -> list[float]:
        """Of critics, actor and temperature; the first two may have had no graph."""
        return [update.metrics[f"train/{name}_loss"].value for name in ("critic", "policy")] + [self.heat]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "masked"), CASES)
def test_losses(kind: str, masked: bool, weighted: bool) -> None:
    algorithm = disagreeing(make(SPACES[kind], temperature=0.7, prioritised=weighted))
    batch, watching = batch_of(algorithm, masked=masked), Watching()
    weights = np.array([1.0, 0.5, 0.25, 0.8], np.float32)
    batch.weights = torch.from_numpy(weights) if weighted else None
    rows, later = algorithm.rows(batch), algorithm._seen(batch, slice(1, None))
    noise_later, noise_now = (part.numpy() for part in algorithm.noise(later, rows.seen))
    targets = slow_targets(algorithm, batch, noise_later)
    update = algorithm.update(batch, watching)
    critic, actor, heat, errors = [], [], [], {lane: [] for lane in range(4)}
    for (row, lane), target in targets.items():
        seen = batch.observation[row, lane].numpy()
        mask = None if batch.action_mask is None else batch.action_mask[row, lane].numpy()
        if kind == "numbers":
            values = judge(algorithm.critics, seen, (batch.action[row, lane].numpy() - [0, 5]) / [2, 5])[:, 0]
            goal = -2.0
        else:
            values = judge(algorithm.critics, seen, None)[:, int(batch.action[row, lane]) - 2]
            goal = 0.5 * math.log(4 if mask is None else mask.sum())
        weight = weights[lane] if weighted else 1.0
        critic.append(weight * 0.5 * ((values - target) ** 2).sum())
        value, entropy = slow_weigh(algorithm, algorithm.critics, seen, noise_now[row, lane], mask)
        actor.append(-value)
        heat.append(0.7 * (entropy - goal))
        errors[lane].append(abs(values - target).mean())
    assert watching.losses(update) == pytest.approx(
        [np.mean(critic), np.mean(actor), np.mean(heat)], rel=1e-3, abs=2e-4
    )
    assert watching.weights == [len(targets)] * 3
    if not weighted:
        assert update.priorities is None
        return
    expected = [0.9 * max(found) + 0.1 * np.mean(found) for found in errors.values()]
    assert update.priorities is not None
    assert update.priorities.tolist() == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_the_expectation_over_choices_is_the_mean_of_samples() -> None:
    torch.manual_seed(0)
    values, log_probs, alpha = torch.randn(2, 5), torch.log_softmax(torch.randn(5), -1), torch.tensor(0.3)
    expected, entropy = soft_value_of_discrete(values, log_probs, alpha)
    drawn = torch.multinomial(log_probs.exp(), 200_000, replacement=True)
    sampled = soft_value(values[:, drawn], log_probs[drawn], alpha)
    assert float(sampled.mean()) == pytest.approx(float(expected), abs=0.01)
    assert float(entropy) == pytest.approx(-float(log_probs[drawn].mean()), abs=0.01)


def test_the_density_of_squashed_actions_integrates_to_one() -> None:
    """Of actions from -1 to 1, as the temperature counts them, whatever the bounds."""
    algorithm = make(spaces.Box(-7.0, 3.0, (1,), np.float32))
    head = algorithm.policy.head
    unit = torch.linspace(-0.99999, 0.99999, 200_001, dtype=torch.float64).float().unsqueeze(-1)
    leaning = torch.tensor([0.4, -0.7]).expand(len(unit), 2)
    density = (head.log_prob(leaning, head.within(unit)) + head.log_scale).exp()
    assert float(torch.trapezoid(density.double(), unit[:, 0].double())) == pytest.approx(1.0, abs=1e-3)
    torch.testing.assert_close(head.unit(head.within(unit)), unit, atol=1e-6, rtol=0)


# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize("kind", list(SPACES))
def test_the_actor_moves_alone(kind: str) -> None:
    algorithm = make(SPACES[kind])
    batch, watching = batch_of(algorithm), Watching()
    algorithm.update(batch, watching)
    critic, actor, _ = watching.gradients
    assert critic.norm() > 0
    assert actor.norm() > 0
    # the actor's loss came after, and left the critics' gradient as it was
    assert torch.equal(algorithm.critic.flat.gradients, critic)
    assert all(parameter.requires_grad for parameter in algorithm.critics.parameters())
    assert all(parameter.grad is None for parameter in algorithm.target.module.parameters())


@pytest.mark.parametrize("kind", list(SPACES))
def test_the_actors_gradient_by_differences(kind: str) -> None:
    algorithm = disagreeing(make(SPACES[kind], model=Named(name="mlp", hidden=[4], activation="tanh")))  # type: ignore[call-arg]
    batch, watching = batch_of(algorithm), Watching()
    algorithm.update(batch, watching)
    parameters, gradient = algorithm.flat.parameters, watching.gradients[1]
    for index in range(0, len(parameters), 5):
        losses = []
        for move in (1e-2, -1e-2):
            parameters[index] += move
            algorithm.updates, again = 0, Watching()
            losses.append(again.losses(algorithm.update(batch, again))[1])
            parameters[index] -= move
        slope = (losses[0] - losses[1]) / 2e-2
        assert float(gradient[index]) == pytest.approx(slope, rel=0.05, abs=2e-3)


def test_critics_can_be_frozen() -> None:
    critics = make().critics
    seen, action = torch.ones(1, 2, 3), torch.zeros(1, 2, 2, requires_grad=True)
    with frozen(critics):
        critics(seen, action, torch.zeros(1, 2, dtype=torch.bool)).sum().backward()
    assert action.grad is not None
    assert action.grad.abs().sum() > 0
    assert all(float(parameter.grad.abs().sum()) == 0 for parameter in critics.parameters())


@pytest.mark.parametrize(("excess", "way"), [(0.5, -1), (-0.5, 1)])
def test_the_temperature_falls_where_there_is_too_much_entropy(excess: float, way: int) -> None:
    log = torch.tensor(math.log(0.3), requires_grad=True)
    loss = temperature_loss(log, torch.tensor(excess))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(0.3 * excess)
    assert math.copysign(1, -float(log.grad)) == way


def test_a_fixed_temperature_stays() -> None:
    fixed, learns = make(temperature=0.2, learn_temperature=False), make(temperature=0.2)
    for algorithm in (fixed, learns):
        algorithm.update(batch_of(algorithm), SoloLearner())
    assert float(fixed.temperature.value) == pytest.approx(0.2)
    assert float(learns.temperature.value) != pytest.approx(0.2, rel=1e-4)
    assert (len(fixed.optimisers), len(learns.optimisers)) == (2, 3)


# ---------------------------------------------------------------- parts


def test_soft_targets() -> None:
    algorithm = make(tau=0.25)
    start = algorithm.critic.flat.parameters.clone()
    algorithm.update(batch_of(algorithm), SoloLearner())
    moved = algorithm.critic.flat.parameters
    assert not torch.equal(moved, start)
    torch.testing.assert_close(algorithm.target.flat.parameters, start.lerp(moved, 0.25))


@pytest.mark.parametrize("kind", list(SPACES))
def test_state_goes_on(kind: str) -> None:
    one, other = make(SPACES[kind]), make(SPACES[kind], temperature=3.0)
    one.update(batch_of(one), SoloLearner())
    other.load_state_dict({name: value.clone() for name, value in one.state_dict().items()})
    for algorithm in (one, other):
        algorithm.update(batch_of(algorithm), SoloLearner())
    assert one.updates == other.updates == 2
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def test_twins_side_by_side_say_what_they_say_apart() -> None:
    torch.manual_seed(1)
    pair = [Critic(RELU, SEES, 3) for _ in range(2)]
    seen, first = torch.randn(2, 5, 3), torch.zeros(2, 5, dtype=torch.bool)
    together = Stacked(*pair)(seen)
    torch.testing.assert_close(together, torch.stack([critic(seen, first) for critic in pair]), atol=1e-6, rtol=1e-5)
    assert not torch.allclose(together[0], together[1])


def test_other_models_are_asked_one_by_one() -> None:
    norms = Named(name="mlp", hidden=[8], layer_norm=True)  # type: ignore[call-arg]
    algorithm = make(model=norms)
    assert len(algorithm.critics.pair) == 2
    start = algorithm.critic.flat.parameters.clone()
    algorithm.update(batch_of(algorithm), SoloLearner())
    assert not torch.equal(algorithm.critic.flat.parameters, start)


def test_what_is_published_is_what_acts() -> None:
    algorithm = make()
    policy = sum(parameter.numel() for parameter in algorithm.policy.parameters())
    assert policy == (3 * 8 + 8) + (8 * 8 + 8) + (8 * 4 + 4)
    assert algorithm.flat.parameters.numel() == policy


# ---------------------------------------------------------------- acting


def ask(algorithm: SAC, rows: int, *, explore: bool, mask: torch.Tensor | None = None) -> np.ndarray:
    noise = torch.from_numpy(np.random.default_rng(0).random((rows, algorithm.policy.noise_size), np.float32))
    request = Request(torch.ones(rows, 3), torch.ones(rows, dtype=torch.bool), noise, None, mask)
    with torch.no_grad():
        return algorithm.policy.act(request, explore=explore).action.numpy()


def test_until_something_is_learned_every_action_is_alike() -> None:
    algorithm = make()
    actions = ask(algorithm, 20_000, explore=True)
    for column, (low, high) in enumerate(zip(FORCES.low, FORCES.high, strict=True)):
        counts, _ = np.histogram(actions[:, column], 10, (low, high))
        assert counts.sum() == 20_000
        assert np.abs(counts - 2000).max() < 200
    algorithm.update(batch_of(algorithm), SoloLearner())
    assert not bool(algorithm.policy.uniform)
    assert not np.array_equal(ask(algorithm, 50, explore=True), actions[:50])
    assert len(np.unique(ask(algorithm, 50, explore=False), axis=0)) == 1
    assert len(np.unique(ask(make(), 50, explore=False), axis=0)) == 1


def test_forbidden_choices_are_never_taken() -> None:
    algorithm = make(CHOICES)
    mask = torch.tensor([False, True, False, True]).expand(4000, 4)
    for _ in range(2):
        actions = ask(algorithm, 4000, explore=True, mask=mask)
        assert set(actions.tolist()) == {3, 5}
        assert abs(np.mean(actions == 3) - 0.5) < 0.05
        assert set(ask(algorithm, 9, explore=False, mask=mask[:9]).tolist()) <= {3, 5}
        algorithm.policy.uniform.fill_(False)


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    "space",
    [spaces.MultiDiscrete([2, 3]), spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Box(0, 9, (2,), np.int64)],
    ids=["many choices", "no bounds", "whole numbers"],
)
def test_other_spaces_are_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(
        InputError, match=r"algorithm.name = 'sac' needs bounded continuous actions or .* try ppo, or wrap"
    ):
        make(space)


def test_memory_is_refused() -> None:
    with pytest.raises(InputError, match=r"model.name = 'gru'\): try mlp, or ppo"):
        make(model=Named(name="gru", hidden=[8]))  # type: ignore[call-arg]


def test_a_batch_of_sac_is_whole_sequences() -> None:
    with pytest.raises(InputError, match=r"algorithm.batch = 20 is no multiple of algorithm.unroll = 6: try 18"):
        make(batch=20)


# ---------------------------------------------------------------- runs


def experiment(world: str, **placement: Any) -> Experiment:
    return Experiment.parse(
        {
            "env": {"id": world, "num_envs": 8},
            "algorithm": {"name": "sac", "unroll": 2, "batch": 32, "warmup": 64, "updates": 2, "prioritised": True},
            "model": {"name": "mlp", "hidden": [16]},
            "placement": placement,
            "stop": {"updates": 12},
            "name": "soft",
        }
    )


@pytest.mark.parametrize("hold", [1, 4])
def test_noise_is_held(tmp_path: Path, hold: int) -> None:
    """All it sees is equal and nothing is learned yet: pushes change with their noise alone."""
    Push.pushes.clear()
    tree = {
        "env": {"id": "tests.algorithms.sac.push:Push", "num_envs": 1, "vector": "loop"},
        "algorithm": {"name": "sac", "hold_noise": hold, "warmup": 1_000},
        "model": {"name": "mlp", "hidden": [8]},
        "stop": {"steps": 40},
    }
    shoal.train(Experiment.parse(tree), root=tmp_path, on="inline", quiet=True)
    pushes = np.array(Push.pushes[:40]).reshape(-1, hold)
    assert (pushes == pushes[:, :1]).all()
    assert len(np.unique(pushes[:, 0])) == len(pushes)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return CheckpointStore(folder / "checkpoints", keep=9).latest().tensors


@pytest.mark.parametrize(
    ("world", "on", "placement"),
    [
        ("Pendulum-v1", "inline", {}),
        ("CartPole-v1", "inline", {}),
        ("Pendulum-v1", "local", {"actors": 2, "inference": "worker"}),
        ("Pendulum-v1", "local", {"trainers": 2}),
    ],
)
def test_equal_runs_are_equal_to_the_bit(tmp_path: Path, world: str, on: str, placement: dict[str, Any]) -> None:
    one = shoal.train(experiment(world, **placement), root=tmp_path / "one", quiet=True, on="inline")
    two = shoal.train(experiment(world, **placement), root=tmp_path / "two", quiet=True, on=on)
    ours, theirs = weights(one.folder), weights(two.folder)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert int(ours["agent/updates"]) == 2 * 9  # 16 rows a round: three to warm up, the fourth is learned from


@pytest.mark.parametrize("world", ["shoal/target", "shoal/chain"])
def test_toy_worlds_are_solved_softly(tmp_path: Path, world: str) -> None:
    settings = {"name": "sac", "unroll": 4, "warmup": 200, "updates": 8, "lr": 3e-3, "gamma": 0.9, "temperature": 0.1}
    floor = {"shoal/target": -0.1, "shoal/chain": 0.95}[world]
    model = {"name": "mlp", "hidden": [32, 32], "activation": "relu"}
    assert learned(tmp_path, world, settings, model, 80) >= floor


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("hold", "solved"), [(1, False), (32, True)])
def test_held_noise_gets_up_the_hill(tmp_path: Path, hold: int, solved: bool) -> None:
    """The experiment of docs/tasks/explore.md. Whoever never sees the flag learns to stand still, which earns 0."""
    tree = {
        "env": {"id": "MountainCarContinuous-v0", "num_envs": 4},
        "algorithm": {
            "name": "sac", "unroll": 8, "updates": 16, "gamma": 0.999, "tau": 0.01, "warmup": 4_000, "temperature": 0.1,
            "learn_temperature": False, "hold_noise": hold,
        },
        "model": {"name": "mlp", "hidden": [64, 64], "activation": "relu"},
        "stop": {"steps": 30_000},
    }  # fmt: skip
    outcome = shoal.train(Experiment.parse(tree), root=tmp_path, on="inline", quiet=True)
    scores, _ = shoal.evaluate(str(outcome.folder), episodes=100, root=tmp_path)
    assert (scores.mean > 90) == solved
