"""The suite of algorithms: every built-in one passes, and each fault is found by its check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from suites import CASES, FRESH, SPACES, Case
from torch import Tensor, nn

from shoal.algorithms.actor_critic.a2c import A2C
from shoal.api.algorithm import Learner, NonFiniteError, Task, Update
from shoal.api.fragment import Fragment
from shoal.api.metric import Mean
from shoal.testing.algorithm import check_algorithm
from shoal.testing.check import require

TASK = Task(SPACES["discrete"], 16, 0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_built_in_algorithms_conform(case: Case) -> None:
    require(check_algorithm(case.kind, case.task, config=case.config, model=case.model, masked=case.masked))


def failed(kind: type[A2C], task: Task = TASK, **config: Any) -> dict[str, str]:
    checks = check_algorithm(kind, task, config={**FRESH, **config})
    return {check.name: check.detail for check in checks if not check.passed}


class Backwards(A2C):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.needs = replace(self.needs, max_lag=-1)


class Unpublished(A2C):
    """A buffer comes too late for the block."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.policy.register_buffer("late", torch.zeros(3))


class Idle(A2C):
    def update(self, batch: Fragment, learner: Learner) -> Update:
        return Update({})


class Wordy(A2C):
    def update(self, batch: Fragment, learner: Learner) -> Update:
        update = super().update(batch, learner)
        return replace(update, metrics={**update.metrics, "train/odd": Mean(float("nan"))})


class Promising(A2C):
    key_metrics = (*A2C.key_metrics, "wisdom")


class Prioritising(A2C):
    def update(self, batch: Fragment, learner: Learner) -> Update:
        return replace(super().update(batch, learner), priorities=torch.ones(16))


class Unseeded(A2C):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        with torch.no_grad():
            self.policy.value.weight.add_(torch.from_numpy(np.random.default_rng().normal(size=(1, 16))).float())


class Constant(A2C):
    def __init__(self, config: Any, model: Any, task: Task) -> None:
        super().__init__(config, model, replace(task, seed=0))


class Dicey(A2C):
    def update(self, batch: Fragment, learner: Learner) -> Update:
        return super().update(replace(batch, reward=batch.reward + torch.rand_like(batch.reward)), learner)


class Forgetful(A2C):
    def state_dict(self) -> dict[str, Tensor]:
        return {name: value for name, value in super().state_dict().items() if not name.startswith("optimiser.mean")}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        own = super().state_dict()
        super().load_state_dict({**own, **state})


class Deaf(A2C):
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.updates = int(state["updates"])


class Credulous(A2C):
    """Hides a NaN from the learner."""

    def update(self, batch: Fragment, learner: Learner) -> Update:
        clean = replace(batch, reward=batch.reward.nan_to_num(), observation=batch.observation.nan_to_num())
        return super().update(clean, learner)


class Poisoned(A2C):
    """Takes a NaN into its statistics before it complains."""

    def update(self, batch: Fragment, learner: Learner) -> Update:
        if not batch.reward.isfinite().all():
            self.optimiser.state_dict()["mean"].fill_(float("nan"))
            raise NonFiniteError("the reward is NaN")
        return super().update(batch, learner)


class Scribbling(A2C):
    def prepare(self, fragment: Fragment) -> Fragment:
        fragment.reward *= 2
        return fragment


class Shrinking(A2C):
    def prepare(self, fragment: Fragment) -> Fragment:
        return replace(fragment, reward=fragment.reward.astype(np.float16))


class Moody(A2C):
    def prepare(self, fragment: Fragment) -> Fragment:
        return replace(fragment, reward=fragment.reward + np.float32(self.updates))


class Unlisted(A2C):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.optimisers = ()


class Outside(A2C):
    """A parameter that learns beside all blocks."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.gain = nn.Parameter(torch.ones(7))

    def update(self, batch: Fragment, learner: Learner) -> Update:
        learner.step(self.gain.sum() + self.policy.value.bias.sum(), self.optimiser)
        return super().update(batch, learner)


UPDATES = "an update changes parameters and keeps them finite"
SEEDS = "equal seeds give equal bits"
STATE = "a state dict goes on equally"
NAN = "a batch with nan is refused"
FAULTS = {
    Backwards: ("its needs make sense", "needs.max_lag is -1"),
    Unpublished: ("the policy lies in its block", "policy.late is not in `flat`"),
    Idle: (UPDATES, "left the policy as it was"),
    Wordy: (UPDATES, "metric 'train/odd'"),
    Promising: (UPDATES, "key_metrics names ['wisdom']"),
    Prioritising: (UPDATES, "does not request"),
    Unseeded: (SEEDS, "equal seeds start from different parameters"),
    Constant: (SEEDS, "another task.seed starts from the same parameters"),
    Dicey: (SEEDS, "on equal batches gives different bits"),
    Forgetful: (STATE, "the update after load_state_dict differs"),
    Deaf: (STATE, "load_state_dict"),
    Credulous: (NAN, "a NaN reward went unnoticed"),
    Poisoned: (NAN, "is not finite after a batch with a NaN reward"),
    Scribbling: ("prepare is pure", "prepare changed the fragment it was given"),
    Shrinking: ("prepare is pure", "reward (9, 16) float16"),
    Moody: ("prepare is pure", "something else the second time"),
    Unlisted: ("all that learns belongs to an optimiser", "that `optimisers` does not list"),
    Outside: ("all that learns belongs to an optimiser", "a parameter of shape (7,) gets a gradient"),
}


def test_the_one_that_is_broken_below_conforms() -> None:
    assert failed(A2C) == {}


@pytest.mark.parametrize("kind", list(FAULTS))
def test_each_fault_is_found(kind: type[A2C]) -> None:
    name, text = FAULTS[kind]
    found = failed(kind)
    assert text in found.get(name, "nothing"), found


def test_settings_that_do_not_fit_are_one_failure() -> None:
    found = failed(A2C, gamma=0.5, lr={"start": 1e-3, "end": 0.0})
    assert set(found) == {"it can be built"}
    assert "algorithm.lr has no end" in found["it can be built"]
