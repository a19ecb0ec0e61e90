"""Settings changed in a running run: to the bit what an algorithm built with them does, read back, refused, kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from shoal.algorithms.learner import SoloLearner
from shoal.api.algorithm import Algorithm, Update
from shoal.base.config import Config, Schedule
from shoal.base.errors import InputError
from tests.algorithms.subjects import SUBJECTS, equal, state_of, told

SMALL = 0.0123
POLICY_GRADIENT = {"lr": SMALL, "gamma": 0.7, "lam": 0.5, "value_coef": 0.9, "entropy": 0.2, "max_grad_norm": 1e-3}
CLIPPED = {"epochs": 3, "clip": 0.01, "value_clip": 0.01, "target_kl": 1e-4}
V_TRACE = {"rho_bar": 0.6, "c_bar": 0.4}
Q_LEARNING = {"lr": SMALL, "gamma": 0.7, "target_every": 3, "tau": 0.3, "max_grad_norm": 1e-3}
SAC = {"lr": SMALL, "critic_lr": 0.002, "gamma": 0.7, "tau": 0.3, "max_grad_norm": 1e-3, "target_entropy": 0.1}

CHANGES: dict[str, dict[str, Any]] = {
    "ppo": POLICY_GRADIENT | CLIPPED,
    "ppo, normalised": POLICY_GRADIENT | CLIPPED,
    "appo": POLICY_GRADIENT | CLIPPED | V_TRACE,
    "impala": POLICY_GRADIENT | V_TRACE,
    "a2c": POLICY_GRADIENT,
    "a3c": POLICY_GRADIENT,
    "dqn": Q_LEARNING | {"epsilon": 0.6},
    "dqn, prioritised": Q_LEARNING | {"epsilon": 0.6, "prioritised.eta": 0.2},
    "r2d2": Q_LEARNING | {"prioritised.eta": 0.2},
    "ngu": {key: value for key, value in Q_LEARNING.items() if key != "gamma"}
    | {"epsilon": 0.6, "novelty.weight": 0.9, "novelty.gamma": 0.9, "novelty.gamma_last": 0.5, "novelty.relabel": 1.0},
    "qmix": Q_LEARNING | {"epsilon": 0.6},
    "sac": SAC,
    "sac, fixed temperature": SAC | {"temperature": 0.25},
    "sac, choices": SAC,
}
NO_EFFECT = {("sac, fixed temperature", "target_entropy")}
"""A target for an entropy that nothing holds."""
EVERY = [(name, key) for name, changes in CHANGES.items() for key in changes]


def started(name: str) -> Algorithm:
    """After two updates: moments are not zero, and the target is not the policy."""
    algorithm = SUBJECTS[name].build()
    for _ in range(2):
        algorithm.update(SUBJECTS[name].batch(algorithm), SoloLearner())
    return algorithm


def next_update(algorithm: Algorithm, name: str, steps: int = 0) -> tuple[Update, dict[str, torch.Tensor]]:
    learner = SoloLearner()
    learner.steps = steps
    torch.manual_seed(5)
    return told(algorithm, SUBJECTS[name].batch(algorithm), learner)


# ---------------------------------------------------------------- the next update


@pytest.mark.parametrize(("name", "key"), EVERY)
def test_the_next_update_is_that_of_an_algorithm_built_so(name: str, key: str) -> None:
    changed, same = started(name), started(name)
    built = SUBJECTS[name].build({key: CHANGES[name][key]})
    state = state_of(changed)
    if key == "temperature":
        state["temperature.log"] = state_of(built)["temperature.log"]
    built.load_state_dict(state)
    found = changed.reconfigure({key: CHANGES[name][key]})
    assert found[key] == pytest.approx(CHANGES[name][key])
    updates, states = zip(*(next_update(each, name) for each in (changed, built, same)), strict=True)
    assert equal(states[0], states[1])
    assert updates[0].metrics == updates[1].metrics
    if updates[0].priorities is not None:
        assert torch.equal(updates[0].priorities, updates[1].priorities)
    another = not equal(states[0], states[2]) or (
        updates[0].priorities is not None and not torch.equal(updates[0].priorities, updates[2].priorities)
    )
    assert another == ((name, key) not in NO_EFFECT)


@pytest.mark.parametrize("name", CHANGES)
def test_all_at_once(name: str) -> None:
    changed = started(name)
    built = SUBJECTS[name].build(CHANGES[name])
    state = state_of(changed)
    if "temperature" in CHANGES[name]:
        state["temperature.log"] = state_of(built)["temperature.log"]
    built.load_state_dict(state)
    changed.reconfigure(CHANGES[name])
    for _ in range(2):
        assert equal(next_update(changed, name)[1], next_update(built, name)[1])


@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_a_number_may_become_a_schedule_and_a_schedule_a_number(name: str) -> None:
    algorithm = started(name)
    line = {"start": 1e-3, "end": 3e-3, "steps": 100}
    assert algorithm.reconfigure({"lr": line})["lr"] == pytest.approx(1e-3)
    next_update(algorithm, name, steps=50)
    assert algorithm.optimisers[0].lr == pytest.approx(2e-3)
    assert algorithm.reconfigure({})["lr"] == algorithm.optimisers[0].lr
    assert algorithm.reconfigure({"lr": Schedule(start=1e-3, end=5e-3, steps=100)})["lr"] == pytest.approx(3e-3)
    assert algorithm.reconfigure({"lr": 0.5})["lr"] == 0.5
    next_update(algorithm, name, steps=100)
    assert algorithm.optimisers[0].lr == 0.5


def test_epsilon_is_in_the_version() -> None:
    algorithm: Any = started("dqn")
    before = algorithm.flat.block.clone()
    algorithm.reconfigure({"epsilon": 0.75})
    assert float(algorithm.policy.epsilon) == 0.75
    assert not torch.equal(algorithm.flat.block, before)
    algorithm.reconfigure({"epsilon": {"start": 1.0, "end": 0.0, "steps": 100}})
    next_update(algorithm, "dqn", steps=25)
    assert float(algorithm.policy.epsilon) == 0.75


def test_kernels_come_and_go_with_what_they_can() -> None:
    algorithm: Any = started("ppo")
    assert algorithm.passes.kernel is not None
    algorithm.reconfigure({"value_clip": 0.2})
    assert algorithm.passes.kernel is None
    algorithm.reconfigure({"value_clip": None})
    assert algorithm.passes.kernel is not None


# ---------------------------------------------------------------- read back


@pytest.mark.parametrize("name", CHANGES)
def test_all_that_may_change_is_read_back(name: str) -> None:
    algorithm = started(name)
    before = algorithm.reconfigure({})
    assert set(before) == set(CHANGES[name])
    after = algorithm.reconfigure(CHANGES[name])
    assert after == pytest.approx(CHANGES[name])
    assert after["lr"] == algorithm.optimisers[0].lr
    assert after["max_grad_norm"] == algorithm.optimisers[0].max_grad_norm
    if name.startswith("sac"):
        assert algorithm.optimisers[1].lr == after["critic_lr"]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("name", "key", "value", "words"),
    [
        ("ppo", "unroll", 64, "algorithm.unroll = 64 cannot be changed while a run goes on: start a new run"),
        ("ppo", "minibatch", 8, "algorithm.minibatch = 8 cannot be changed"),
        ("ppo", "shared", True, "algorithm.shared = True cannot be changed"),
        ("ppo", "critic", "central", "algorithm.critic = 'central' cannot be changed"),
        ("ppo", "normalise_rewards", True, "algorithm.normalise_rewards = True cannot be changed"),
        ("ppo", "clipp", 0.1, "algorithm.clipp = 0.1: there is no such setting to change; did you mean 'clip'?"),
        ("ppo", "clip", -0.1, "algorithm.clip = -0.1: should be greater than 0"),
        ("ppo", "gamma", 1.5, "algorithm.gamma = 1.5: should be less than or equal to 1"),
        ("ppo", "clip", "much", "algorithm.clip = 'much': should be a number"),
        ("ppo", "epochs", 1.5, "algorithm.epochs = 1.5: should be a whole number"),
        ("ppo", "lr", {"start": 1.0, "end": 0.0}, "algorithm.lr has no end"),
        ("ppo", "name", "dqn", "algorithm.name = 'dqn' cannot be changed"),
        ("dqn", "capacity", 5, "algorithm.capacity = 5 cannot be changed"),
        ("dqn", "prioritised", True, "algorithm.prioritised = True cannot be changed"),
        ("dqn", "prioritised.eta", 0.5, "algorithm.prioritised.eta = 0.5: there is no such setting to change"),
        ("dqn, prioritised", "prioritised.alpha", 0.5, "algorithm.prioritised.alpha = 0.5 cannot be changed"),
        ("dqn, prioritised", "prioritised.etta", 0.5, "did you mean 'prioritised.eta'?"),
        ("dqn", "epsilon", {"base": 0.4, "alpha": 7.0}, "cannot be changed in this run, whose lanes have no rates"),
        ("r2d2", "epsilon", 0.1, "algorithm.epsilon = 0.1 cannot be changed in this run: every lane has a rate"),
        ("ngu", "gamma", 0.5, "algorithm.gamma = 0.5 cannot be changed in this run: novelty.gamma takes its place"),
        ("ngu", "novelty.arms", 3, "algorithm.novelty.arms = 3 cannot be changed"),
        ("ngu", "novelty.gamma", 1.0, "algorithm.novelty.gamma = 1.0: should be less than 1"),
        ("qmix", "mixer", "vdn", "algorithm.mixer = 'vdn' cannot be changed"),
        ("sac", "temperature", 0.5, "algorithm.temperature = 0.5 cannot be changed in this run: it is learned"),
        ("sac", "n_step", 2, "algorithm.n_step = 2 cannot be changed"),
    ],
)
def test_refusals(name: str, key: str, value: Any, words: str) -> None:
    algorithm = started(name)
    before, values = state_of(algorithm), algorithm.reconfigure({})
    with pytest.raises(InputError) as error:
        algorithm.reconfigure({"lr": SMALL, key: value})
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert algorithm.reconfigure({}) == values  # all or nothing
    assert equal(state_of(algorithm), before)


def test_a_value_out_of_range_gets_the_words_of_a_file() -> None:
    algorithm: Any = started("ppo")
    with pytest.raises(InputError) as by_file:
        algorithm.Config.parse({"clip": 0}, at="algorithm")
    with pytest.raises(InputError) as by_change:
        algorithm.reconfigure({"clip": 0})
    assert str(by_file.value) == str(by_change.value)


def test_an_algorithm_without_settings_says_so() -> None:
    class Plain(Algorithm):
        Config = Config

        def __init__(self) -> None: ...

        def update(self, batch: Any, learner: Any) -> Update:
            return Update()

        def state_dict(self) -> dict[str, torch.Tensor]:
            return {}

        def load_state_dict(self, state: dict[str, torch.Tensor]) -> None: ...

    assert Plain().reconfigure({}) == {}
    with pytest.raises(InputError, match=r"algorithm.lr = 0.1: Plain has no settings"):
        Plain().reconfigure({"lr": 0.1})


# ---------------------------------------------------------------- state


@pytest.mark.parametrize("name", CHANGES)
def test_changes_go_with_the_state(name: str) -> None:
    algorithm = started(name)
    assert "settings" not in algorithm.state_dict()
    now = algorithm.reconfigure(CHANGES[name])
    state = state_of(algorithm)
    assert state["settings"].dtype == torch.uint8
    other = SUBJECTS[name].build()
    other.load_state_dict(state)
    assert other.reconfigure({}) == now
    assert equal(next_update(algorithm, name)[1], next_update(other, name)[1])
    assert torch.equal(state_of(other)["settings"], state["settings"])


@pytest.mark.parametrize("name", ["ppo", "dqn", "ngu", "sac"])
def test_a_state_without_changes_takes_them_back(name: str) -> None:
    algorithm = started(name)
    before, values = state_of(algorithm), algorithm.reconfigure({})
    algorithm.reconfigure(CHANGES[name])
    algorithm.load_state_dict(before)
    assert algorithm.reconfigure({}) == values
    assert "settings" not in algorithm.state_dict()


def test_a_schedule_goes_with_the_state() -> None:
    algorithm = started("ppo")
    algorithm.reconfigure({"entropy": {"start": 1.0, "end": 0.0, "steps": 100}})
    other = SUBJECTS["ppo"].build()
    other.load_state_dict(state_of(algorithm))
    assert equal(next_update(algorithm, "ppo", 50)[1], next_update(other, "ppo", 50)[1])
    assert other.reconfigure({})["entropy"] == 0.5
