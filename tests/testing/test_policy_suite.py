"""The suite of policies: every built-in one passes, and each fault is found by its check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from suites import CASES, SPACES, Case
from torch import Tensor, nn

from shoal.algorithms.actor_critic.policy import ActorCritic
from shoal.api.policy import Decision, Policy, Request
from shoal.base.config import Named
from shoal.testing.check import Check, require
from shoal.testing.experience import requested_group
from shoal.testing.policy import check_policy

GROUP = SPACES["discrete"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_built_in_policies_conform(case: Case) -> None:
    algorithm = case.build()

    def knobs(rows: int) -> Tensor:
        explorer = algorithm.explorer(np.arange(rows))
        assert explorer is not None
        return torch.from_numpy(explorer.begin(np.arange(rows)))

    group = requested_group(algorithm, case.task)
    require(check_policy(lambda: case.build().policy, group, knobs=knobs if algorithm.policy.knobs else None))


def failed(kind: Callable[[], Policy], group: Any = GROUP) -> dict[str, str]:
    return {check.name: check.detail for check in check_policy(kind, group) if not check.passed}


class Plain(ActorCritic):
    """Conforms; the others break one promise each."""

    def __init__(self, model: str = "mlp") -> None:
        super().__init__(
            GROUP, Named.parse({"name": model, "hidden": [16]}), shared=None, normalise=False, squash=False
        )

    def quick(self) -> None:
        return None


class Nameless(Plain):
    def __init__(self) -> None:
        super().__init__()
        del self.noise_size


class Long(Plain):
    def act(self, request: Request, *, explore: bool) -> Decision:
        decision = super().act(request, explore=explore)
        return replace(decision, action=decision.action.unsqueeze(-1))


class Beyond(Plain):
    def act(self, request: Request, *, explore: bool) -> Decision:
        decision = super().act(request, explore=explore)
        return replace(decision, action=decision.action + 4)


class Undeclared(Plain):
    def act(self, request: Request, *, explore: bool) -> Decision:
        decision = super().act(request, explore=explore)
        return replace(decision, extras={**decision.extras, "value": torch.zeros(len(request.first))})


class Double(Plain):
    def act(self, request: Request, *, explore: bool) -> Decision:
        decision = super().act(request, explore=explore)
        return replace(decision, extras={name: value.double() for name, value in decision.extras.items()})


class Stateless(Plain):
    def __init__(self) -> None:
        super().__init__("gru")

    def act(self, request: Request, *, explore: bool) -> Decision:
        return replace(super().act(request, explore=explore), state=None)


class Batchy(Plain):
    def act(self, request: Request, *, explore: bool) -> Decision:
        request = replace(request, observation=request.observation - request.observation.mean(0))
        return super().act(request, explore=explore)


class Unmasked(Plain):
    def act(self, request: Request, *, explore: bool) -> Decision:
        return super().act(replace(request, action_mask=None), explore=explore)


class Dicey(Plain):
    def act(self, request: Request, *, explore: bool) -> Decision:
        return super().act(replace(request, noise=torch.rand_like(request.noise)), explore=explore)


class Restless(Plain):
    def act(self, request: Request, *, explore: bool) -> Decision:
        decision = super().act(request, explore=True)
        return decision if explore else replace(decision, extras={})


class Nostalgic(Plain):
    def __init__(self) -> None:
        super().__init__("gru")

    def act(self, request: Request, *, explore: bool) -> Decision:
        return super().act(replace(request, first=torch.zeros_like(request.first)), explore=explore)


class Counting(Plain):
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def act(self, request: Request, *, explore: bool) -> Decision:
        self.seen += len(request.first)
        return super().act(request, explore=explore)


class Hidden(Plain):
    """Deciding needs a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.randn(3)

    def act(self, request: Request, *, explore: bool) -> Decision:
        return super().act(replace(request, observation=request.observation + self.shift), explore=explore)


class Hasty(Plain):
    def quick(self) -> Any:
        def decide(observation: Any, noise: Any, mask: Any, *, explore: bool) -> Any:
            return np.zeros(len(noise), np.int64), {"log_prob": np.zeros(len(noise), np.float32)}

        return decide


SHAPES = "decisions have the declared shapes and dtypes"
FAULTS = {
    Nameless: ("it states what it needs", "noise_size is None"),
    Long: (SHAPES, "actions are (40, 1) int64"),
    Beyond: (SHAPES, "outside Discrete(4)"),
    Undeclared: (SHAPES, "differ in ['value']"),
    Double: (SHAPES, "float64: make it (40,) and float32"),
    Stateless: (SHAPES, "return one like the other"),
    Batchy: ("a row does not depend on its batch", "no batch normalisation"),
    Unmasked: ("masks are respected", "chose what the mask forbids"),
    Dicey: ("equal requests give equal decisions", "draw from request.noise alone"),
    Restless: ("without exploration noise does not matter", "depends on the noise"),
    Nostalgic: ("an episode starts without memory", "reset the state where `first` is True"),
    Counting: ("acting changes nothing", "act changed 'seen'"),
    Hidden: ("a version is its state dict", "keep all that deciding needs"),
    Hasty: ("quick decides as act does", "decides otherwise than act"),
}


def test_the_one_that_is_broken_below_conforms() -> None:
    assert failed(Plain) == {}
    assert failed(lambda: Plain("gru")) == {}


@pytest.mark.parametrize("kind", list(FAULTS))
def test_each_fault_is_found(kind: type[Plain]) -> None:
    name, text = FAULTS[kind]
    found = failed(kind)
    assert text in found.get(name, "nothing"), found


def test_a_policy_that_cannot_be_built_is_one_failure() -> None:
    def make() -> Policy:
        raise KeyError("no such model")

    assert "no such model" in failed(make)["it can be built"]


def test_what_has_no_masks_is_told() -> None:
    class Steady(Policy):
        noise_size, extras = 0, {}  # type: ignore[var-annotated]

        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(4, 4)

        def initial_state(self, batch: int) -> None:
            return None

        def act(self, request: Request, *, explore: bool) -> Decision:
            return Decision(torch.zeros(len(request.first), 2), {})

    group = replace(GROUP, action_space=Box(-1.0, 1.0, (2,), np.float32))
    remarks = {check.name: check.detail for check in check_policy(Steady, group)}
    assert "has no masks" in remarks["masks are respected"]
    assert remarks["an episode starts without memory"] == "this policy has no memory"


def test_require_lists_every_failure() -> None:
    require([Check("fine", True)])
    with pytest.raises(AssertionError, match="one: cause\ntwo: other"):
        require([Check("one", False, "cause"), Check("fine", True), Check("two", False, "other")])
