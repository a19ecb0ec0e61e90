"""The conformance suite of `Policy`: any policy in, checks out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from torch import Tensor

from shoal.api.env import AgentGroup
from shoal.api.policy import Decision, Policy, Request
from shoal.base.tree import tree_leaves, tree_map
from shoal.testing.check import Check, describe_error, expect, run_check, words
from shoal.testing.examples import Knobs, draw_request, mask_widths

ROWS = 40
SIZES = (16, 24, 32)
"""Rows of the batches that are compared: forwards are padded to a multiple of 8, and to 16 at least."""


@dataclass(frozen=True)
class Trial:
    """A policy, how to build another, and the spaces of its requests."""

    make: Callable[[], Policy]
    policy: Policy
    group: AgentGroup
    knobs: Knobs | None

    def start(self, *, seed: int = 0, masked: bool = False) -> Request:
        """A random request at the start of episodes."""
        return draw_request(self.policy, self.group, ROWS, seed=seed, masked=masked, knobs=self.knobs)

    def request(self, *, seed: int = 0, masked: bool = False) -> Request:
        """A random request in the middle of episodes: its state is what three decisions led to."""
        request = self.start(seed=seed, masked=masked)
        for before in range(3 if request.state is not None else 0):
            earlier = replace(self.start(seed=100 + before), state=request.state)
            earlier.first[:] = before == 0
            request.state = self.policy.act(earlier, explore=True).state
        return replace(request, first=torch.zeros_like(request.first))


def check_policy(make: Callable[[], Policy], group: AgentGroup, *, knobs: Knobs | None = None) -> list[Check]:
    """Check the policies that `make()` builds against the contract of Policy.

    `group` has the spaces of a request: where a policy gets more than its agent observes, `observation_space` is all of it.
    `knobs`: what an Explorer would set; default: none.
    """
    try:
        trial = Trial(make, make(), group, knobs)
    except Exception as error:
        return [Check("it can be built", False, describe_error(error))]
    with torch.no_grad():
        return [run_check(words(check), lambda check=check: check(trial)) for check in CHECKS]  # type: ignore[misc]


# ---------------------------------------------------------------- shapes


def it_states_what_it_needs(trial: Trial) -> str:
    """`noise_size`, `extras` and `knobs` are set, and `initial_state` has a row for each of the batch."""
    policy = trial.policy
    noise = getattr(policy, "noise_size", None)
    expect(
        isinstance(noise, int) and noise >= 0,
        f"noise_size is {noise!r}: set it to the count of uniform numbers that one decision uses",
    )
    extras = getattr(policy, "extras", None)
    fine = isinstance(extras, dict) and all(isinstance(shape, tuple) for shape in extras.values())
    expect(fine, f"extras is {extras!r}: set it to {{name: shape per decision}}; {{}} if there are none")
    for path, leaf in tree_leaves(policy.initial_state(5)):
        expect(len(leaf) == 5, f"initial_state(5){path} has shape {tuple(leaf.shape)}: its first axis is the batch")
    return ""


def decisions_have_the_declared_shapes_and_dtypes(trial: Trial) -> str:
    """Actions as the space says, extras as `extras` says, state as `initial_state`."""
    for explore in (True, False):
        decision = trial.policy.act(trial.start(), explore=explore)
        _expect_action(decision.action, trial.group.action_space)
        wrong = decision.extras.keys() ^ trial.policy.extras.keys()
        expect(not wrong or not explore, f"the extras of act and `extras` differ in {sorted(wrong)}: name the same")
        for name, value in decision.extras.items():
            shape = (ROWS, *trial.policy.extras.get(name, ()))
            fine = tuple(value.shape) == shape and value.dtype == torch.float32
            expect(fine, f"extra '{name}' is {_kind(value)}: make it {shape} and float32, or change `extras`")
        _expect_state(decision, trial.policy.initial_state(ROWS))
    return ""


def _expect_action(action: Tensor, space: Space[Any]) -> None:
    shape = (ROWS, *(space.shape or ()))
    expect(tuple(action.shape) == shape, f"actions are {_kind(action)}: {space} needs the shape {shape}")
    if isinstance(space, Box):
        expect(
            action.is_floating_point() and bool(action.isfinite().all()), f"actions in {space} must be finite floats"
        )
        return
    expect(not action.is_floating_point(), f"actions are {_kind(action)}: {space} needs whole numbers")
    low, high = _bounds(space)
    inside = bool(((action >= low) & (action <= high)).all())
    expect(inside, f"an action lies outside {space}: remember its `start`, where it has one")


def _bounds(space: Space[Any]) -> tuple[Tensor, Tensor]:
    if isinstance(space, Discrete):
        return torch.tensor(int(space.start)), torch.tensor(int(space.start + space.n - 1))
    if isinstance(space, MultiDiscrete):
        return torch.from_numpy(space.start), torch.from_numpy(space.start + space.nvec - 1)
    assert isinstance(space, MultiBinary), f"no policy acts in {space}"
    return torch.tensor(0), torch.tensor(1)


def _expect_state(decision: Decision, initial: Any) -> None:
    before, after = dict(tree_leaves(initial)), dict(tree_leaves(decision.state))
    expect(
        before.keys() == after.keys(),
        f"initial_state has {sorted(before)} and act returns a state of {sorted(after)}: return one like the other",
    )
    for path, leaf in before.items():
        same = leaf.shape == after[path].shape and leaf.dtype == after[path].dtype
        expect(same, f"state {path} was {_kind(leaf)} at first and is {_kind(after[path])} after a decision")


def _kind(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


# ---------------------------------------------------------------- values


def a_row_does_not_depend_on_its_batch(trial: Trial) -> str:
    """Equal bits in batches of 16, 24 and 32 rows. Exact runs rely on it."""
    request = trial.request()
    for explore in (True, False):
        whole = _outputs(trial.policy.act(request, explore=explore))
        for size in SIZES:
            rows = torch.from_numpy(np.random.default_rng(size).permutation(ROWS)[:size])
            part = _outputs(trial.policy.act(_take(request, rows), explore=explore))
            for name, value in part.items():
                expect(
                    _equal(value, whole[name][rows]),
                    f"'{name}' of a row changes with the rows beside it ({size} instead of {ROWS}): no batch normalisation, "
                    "no statistics over the batch",
                )
    return ""


def masks_are_respected(trial: Trial) -> str:
    """What a mask forbids is never chosen, whatever the noise."""
    counts = mask_widths(trial.group.action_space)
    if not counts:
        return f"{trial.group.action_space} has no masks"
    start = torch.as_tensor(np.asarray(getattr(trial.group.action_space, "start", 0)))
    for seed in range(4):
        request = trial.request(seed=seed, masked=True)
        assert request.action_mask is not None
        edges = (request.noise, torch.zeros_like(request.noise), torch.full_like(request.noise, 1 - 2**-24))
        for explore, noise in ((True, edges[0]), (True, edges[1]), (True, edges[2]), (False, edges[0])):
            action = trial.policy.act(replace(request, noise=noise), explore=explore).action
            chosen = (action - start).reshape(ROWS, -1)
            for i, part in enumerate(request.action_mask.split(counts, -1)):
                allowed = part.gather(-1, chosen[:, i : i + 1].clamp(0, counts[i] - 1)).all()
                expect(allowed, f"act(explore={explore}) chose what the mask forbids: set forbidden logits to -inf")
    return ""


def equal_requests_give_equal_decisions(trial: Trial) -> str:
    """All randomness is in `noise`; nothing is drawn from torch's or numpy's global generator."""
    request, found = trial.request(), []
    for seed in (1, 2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            found.append(_outputs(trial.policy.act(request, explore=True)))
    one, two = found
    for name, value in one.items():
        expect(_equal(value, two[name]), f"'{name}' differs between equal requests: draw from request.noise alone")
    return ""


def without_exploration_noise_does_not_matter(trial: Trial) -> str:
    """explore=False is greedy."""
    request = trial.request()
    one = trial.policy.act(request, explore=False).action
    two = trial.policy.act(replace(request, noise=request.noise.flip(0)), explore=False).action
    expect(_equal(one, two), "act(explore=False) depends on the noise: give the most probable or best action")
    return ""


def an_episode_starts_without_memory(trial: Trial) -> str:
    """Where `first` is True, the state in the request does not count."""
    request = trial.request()
    if request.state is None:
        return "this policy has no memory"
    starts = torch.arange(ROWS) % 2 == 0
    fresh = replace(request, state=trial.policy.initial_state(ROWS), first=starts)
    used = replace(request, first=starts)
    one, two = (_outputs(trial.policy.act(each, explore=True)) for each in (fresh, used))
    for name, value in one.items():
        expect(
            _equal(value[starts], two[name][starts]),
            f"'{name}' at the start of an episode depends on the one before: reset the state where `first` is True",
        )
    return ""


# ---------------------------------------------------------------- parameters


def acting_changes_nothing(trial: Trial) -> str:
    """Parameters and buffers are the trainer's to change."""
    before = {name: value.clone() for name, value in trial.policy.state_dict().items()}
    for explore in (True, False):
        trial.policy.act(trial.request(), explore=explore)
    for name, value in trial.policy.state_dict().items():
        expect(_equal(value, before[name]), f"act changed '{name}': statistics are updated by the algorithm")
    return ""


def a_version_is_its_state_dict(trial: Trial) -> str:
    """Another policy that loads it decides alike."""
    other = trial.make()
    for parameter in other.parameters():
        parameter.add_(0.1)
    other.load_state_dict(trial.policy.state_dict())
    request = trial.request()
    for explore in (True, False):
        one, two = (_outputs(policy.act(request, explore=explore)) for policy in (trial.policy, other))
        for name, value in one.items():
            expect(
                _equal(value, two[name]),
                f"'{name}' differs after load_state_dict: keep all that deciding needs in parameters and buffers",
            )
    return ""


def quick_decides_as_act_does(trial: Trial) -> str:
    """`quick()`, where there is one, gives the same actions, and extras up to rounding."""
    quick = trial.policy.quick()
    if quick is None:
        return "there is no quick"
    request = trial.request()
    observation = tree_map(lambda tensor: tensor.numpy(), request.observation)
    for explore in (True, False):
        action, extras = quick(observation, request.noise.numpy(), None, explore=explore)
        decision = trial.policy.act(request, explore=explore)
        expect(np.array_equal(action, decision.action.numpy()), f"quick(explore={explore}) decides otherwise than act")
        for name, value in decision.extras.items():
            expect(np.allclose(extras[name], value.numpy(), atol=1e-4), f"quick gives another '{name}' than act")
    return ""


CHECKS: tuple[Callable[[Trial], str], ...] = (
    it_states_what_it_needs,
    decisions_have_the_declared_shapes_and_dtypes,
    a_row_does_not_depend_on_its_batch,
    masks_are_respected,
    equal_requests_give_equal_decisions,
    without_exploration_noise_does_not_matter,
    an_episode_starts_without_memory,
    acting_changes_nothing,
    a_version_is_its_state_dict,
    quick_decides_as_act_does,
)


def _outputs(decision: Decision) -> dict[str, Tensor]:
    state = {f"state {path}".strip(): leaf for path, leaf in tree_leaves(decision.state)}
    return {"action": decision.action, **decision.extras, **state}


def _take(request: Request, rows: Tensor) -> Request:
    return Request(**{name: tree_map(lambda tensor: tensor[rows], value) for name, value in vars(request).items()})


def _equal(one: Tensor, two: Tensor) -> bool:
    """To the bit; NaN equals NaN."""
    return one.shape == two.shape and one.dtype == two.dtype and one.numpy().tobytes() == two.numpy().tobytes()
