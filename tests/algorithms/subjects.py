"""One small instance of every algorithm with a batch that fits it: what is tested of all of them alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from shoal.api.algorithm import Algorithm, Learner, Update
from shoal.api.fragment import Fragment
from tests.algorithms.actor_critic import test_policy_gradients, test_ppo
from tests.algorithms.batches import GRU, fragment
from tests.algorithms.novelty import test_novelty
from tests.algorithms.q_learning import test_q_learning, test_qmix, test_r2d2
from tests.algorithms.sac import test_sac


@dataclass
class Subject:
    """`make(**settings)` builds it, with `settings` where nothing else is said; `batch` is one for it."""

    make: Callable[..., Any]
    batch: Callable[[Any], Fragment]
    settings: dict[str, Any] = field(default_factory=dict)

    def build(self, changes: dict[str, Any] | None = None) -> Algorithm:
        """With changes by dotted keys."""
        settings = {key: dict(value) if isinstance(value, dict) else value for key, value in self.settings.items()}
        for key, value in (changes or {}).items():
            section, _, last = key.rpartition(".")
            (settings.setdefault(section, {}) if section else settings)[last] = value
        algorithm: Algorithm = self.make(**settings)
        return algorithm


def weighted(batch: Fragment) -> Fragment:
    """As prioritised replay gives it."""
    batch.weights = torch.linspace(0.4, 1.0, len(batch.lanes))
    return batch


def _policy_gradient(name: str) -> Callable[..., Any]:
    return lambda **settings: test_policy_gradients.build(name, **settings)


def _old(algorithm: Any) -> Fragment:
    return test_policy_gradients.aged(fragment(algorithm))


def _r2d2(**settings: Any) -> Algorithm:
    return test_q_learning.make(GRU, **settings)


SUBJECTS = {
    "ppo": Subject(test_ppo.build, _old, {"entropy": 0.01}),
    "ppo, normalised": Subject(
        test_ppo.build, _old,
        {"normalise_rewards": True, "normalise_observations": True, "normalise_values": True, "shared": True},
    ),
    "appo": Subject(_policy_gradient("appo"), _old, {"entropy": 0.01}),
    "impala": Subject(_policy_gradient("impala"), _old, {"parts": 2}),
    "a2c": Subject(_policy_gradient("a2c"), _old),
    "a3c": Subject(_policy_gradient("a3c"), _old),
    "dqn": Subject(test_q_learning.make, test_q_learning.batch_of, {"epsilon": 0.3}),
    "dqn, prioritised": Subject(
        test_q_learning.make, lambda a: weighted(test_q_learning.batch_of(a)), {"prioritised": {}, "epsilon": 0.3}
    ),
    "r2d2": Subject(
        _r2d2, lambda a: weighted(test_r2d2.batch_with_burn_in(a)),
        {"burn_in": test_r2d2.BURN_IN, "prioritised": {}, "epsilon": {"base": 0.4, "alpha": 7.0}, "rescale": True},
    ),
    "ngu": Subject(
        lambda *, novelty, **rest: test_novelty.make(novelty=novelty, **rest), test_novelty.curious_batch,
        {"novelty": {"heads": "separate"}, "epsilon": 0.3},
    ),
    "qmix": Subject(test_qmix.make, test_qmix.batch_of, {"epsilon": 0.3}),
    "sac": Subject(test_sac.make, test_sac.batch_of),
    "sac, fixed temperature": Subject(test_sac.make, test_sac.batch_of, {"learn_temperature": False}),
    "sac, choices": Subject(
        lambda **settings: test_sac.make(test_sac.CHOICES, **settings), lambda a: test_sac.batch_of(a, masked=True)
    ),
}  # fmt: skip


def state_of(algorithm: Algorithm) -> dict[str, Tensor]:
    """A copy, as a checkpoint has it."""
    return {name: tensor.detach().clone() for name, tensor in algorithm.state_dict().items()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """To the bit, whatever settings say."""
    names = (one.keys() | other.keys()) - {"settings"}
    return all(name in one and name in other and torch.equal(one[name], other[name]) for name in names)


def told(algorithm: Algorithm, batch: Fragment, learner: Learner) -> tuple[Update, dict[str, Tensor]]:
    """What an update says, and the state behind it."""
    update = algorithm.update(batch, learner)
    return update, state_of(algorithm)
