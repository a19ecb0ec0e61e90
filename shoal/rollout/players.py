"""Those who play and do not learn: at random, by a function of the user's, or as earlier versions of another policy."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import Tensor

from shoal.api.env import AgentGroup
from shoal.api.policy import Decision, Policy, Request
from shoal.base.errors import ShoalError, own_code
from shoal.base.flat import Flat
from shoal.base.tree import Tree, tree_map
from shoal.models.heads import build_head
from shoal.streams.inference import Answer, Ask, InferenceClient, appraise, ask_rows, decide
from shoal.streams.past import Pool
from shoal.streams.primitives import Mailbox

Script = Callable[[Any, np.ndarray | None, np.ndarray], np.ndarray]
"""Observations `[B, ...]`, action mask `[B, actions]` or None, noise `[B, n]` in [0, 1) -> actions `[B, ...]`."""


class RandomPolicy(Policy):
    """Every allowed discrete action alike; continuous ones evenly within their bounds."""

    extras: dict[str, tuple[int, ...]] = {}

    def __init__(self, group: AgentGroup) -> None:
        super().__init__()
        self._box = group.action_space if isinstance(group.action_space, Box) else None
        self._head = None if self._box else build_head(group.action_space, 1)
        self.noise_size = math.prod(self._box.shape) if self._box else self._head.noise_size if self._head else 0

    def initial_state(self, batch: int) -> None:
        return None

    def act(self, request: Request, *, explore: bool) -> Decision:
        if self._box is not None:
            return Decision(self._within(self._box, request.noise), {}, None)
        assert self._head is not None
        even = torch.zeros(len(request.noise), self._head.linear.out_features)
        return Decision(self._head.sample(even, request.noise, request.action_mask)[0], {}, None)

    @staticmethod
    def _within(box: Box, noise: Tensor) -> Tensor:
        low, high = np.maximum(box.low, -1e3), np.minimum(box.high, 1e3)
        actions = low.reshape(-1) + noise.numpy() * (high - low).reshape(-1)
        return torch.from_numpy(actions.reshape(-1, *box.shape).astype(np.float32))


class ScriptedPolicy(Policy):
    """Plays what a function says. `said`: how errors call it."""

    noise_size = 8
    extras: dict[str, tuple[int, ...]] = {}

    def __init__(self, script: Script, space: Space[Any], said: str) -> None:
        super().__init__()
        self._script, self._space, self._said = script, space, said

    def initial_state(self, batch: int) -> None:
        return None

    def act(self, request: Request, *, explore: bool) -> Decision:
        mask = None if request.action_mask is None else request.action_mask.numpy()
        with own_code(self._said, ShoalError):
            given = self._script(tree_map(lambda t: t.numpy(), request.observation), mask, request.noise.numpy())
            action = np.asarray(given)
        self._check(action, (len(request.noise), *(self._space.shape or ())), mask)
        return Decision(torch.as_tensor(action), {}, None)

    def _check(self, action: np.ndarray, shape: tuple[int, ...], mask: np.ndarray | None) -> None:
        """Continuous actions may lie beyond their bounds: environments clip them, as they do those of policies."""
        if action.shape != shape:
            raise ShoalError(
                f"{self._said} returned actions {list(action.shape)}: return {list(shape)}, one per observation"
            )
        if isinstance(self._space, Box):
            fits = action.dtype.kind in "fiu" and np.isfinite(action)
        elif action.dtype.kind not in "iub":
            raise ShoalError(
                f"{self._said} returned numbers of type {action.dtype}: return whole numbers of {self._space}"
            )
        else:
            fits = (action >= 0) & (action < _counts(self._space))
        if not np.all(fits):
            wrong = action[~np.broadcast_to(fits, action.shape)].flat[0]
            raise ShoalError(f"{self._said} returned the action {wrong}: return what {self._space} holds")
        if mask is not None and isinstance(self._space, Discrete):
            legal = np.take_along_axis(mask, action[:, None].astype(np.int64), 1)[:, 0] | ~mask.any(1)
            if not legal.all():
                raise ShoalError(f"{self._said} returned the action {action[~legal][0]}, which its action mask forbids")


def _counts(space: Space[Any]) -> Any:
    """How many values each number of a discrete action may have."""
    return space.n if isinstance(space, Discrete) else space.nvec if isinstance(space, MultiDiscrete) else 2


class FixedInference(InferenceClient):
    """A policy that never changes."""

    def __init__(self, policy: Policy, *, explore: bool) -> None:
        self._policy, self._explore = policy.eval(), explore
        self._answer: Answer | None = None

    def pin(self, round_: int) -> bool:
        return True

    def ask(self, ask: Ask) -> None:
        self._answer = decide(self._policy, ask, explore=self._explore, version=0)

    def answer(self, timeout: float) -> Answer | None:
        answer, self._answer = self._answer, None
        return answer


class WatchedInference(InferenceClient):
    """A policy that is watched: it decides as `client` does, and its answers say what it thinks of them.

    It is asked with all that its lanes note; `to_decide` takes from it what deciding takes.
    """

    def __init__(self, client: InferenceClient, policy: Policy, to_decide: Callable[[Tree], Tree]) -> None:
        self._client, self._policy, self._to_decide = client, policy, to_decide
        self._request: Ask | None = None

    def pin(self, round_: int) -> bool:
        return self._client.pin(round_)

    def ask(self, ask: Ask) -> None:
        self._request = ask
        self._client.ask(replace(ask, observation=self._to_decide(ask.observation)))

    def answer(self, timeout: float) -> Answer | None:
        answer = self._client.answer(timeout)
        if answer is None:
            return None
        assert self._request is not None, "ask comes first"
        return replace(answer, extras=appraise(self._policy, self._request, answer.action) | answer.extras)


class PastInference(InferenceClient):
    """Earlier versions of a policy. Each lane draws one at the start of its episode, by the last of its noise, and keeps it."""

    remembers = True

    def __init__(
        self, policy: Policy, mailbox: Mailbox, lanes: int, *, pool: Pool, newest: Callable[[int], int], explore: bool,
        latest: float = 0.0,
    ) -> None:  # fmt: skip
        self._policy, self._mailbox, self._pool, self._newest, self._explore = policy, mailbox, pool, newest, explore
        self._latest = latest
        self._policies: dict[int, Policy] = {}
        self._chosen = np.full(lanes, -1)
        self._available: list[int] = []
        self._answer: Answer | None = None

    def pin(self, round_: int) -> bool:
        """`newest` says which of the kept ones is the last that a round may meet."""
        newest = self._newest(round_)
        if self._mailbox.latest() < newest:
            return False
        self._available = [number for number in self._pool.at(newest) if number in self._policies or self._load(number)]
        for number in set(self._policies) - set(self._available) - set(self._chosen.tolist()):
            del self._policies[number]
        return bool(self._available)

    def _load(self, number: int) -> bool:
        policy = copy.deepcopy(self._policy)
        flat = Flat(policy, gradients=False)
        if not self._mailbox.read(number, flat.block.numpy()):
            return False
        self._policies[number] = policy.eval()
        return True

    def ask(self, ask: Ask) -> None:
        anew = ask.first | (self._chosen < 0)
        self._chosen[anew] = self._drawn(ask.noise[anew, -1])
        parts, ask = [], replace(ask, noise=ask.noise[:, :-1])
        for number in sorted(set(self._chosen.tolist())):
            rows = np.flatnonzero(self._chosen == number)
            part = decide(self._policies[number], ask_rows(ask, rows), explore=self._explore, version=number)
            parts.append((rows, part))
        self._answer = joined_answers(parts, len(ask.first))

    def _drawn(self, noise: np.ndarray) -> np.ndarray:
        """Numbers of the kept ones, by noise in [0, 1): below `latest` the newest, above it all of them alike."""
        share = np.maximum(noise - self._latest, 0) / max(1 - self._latest, 1e-9)
        places = np.minimum((share * len(self._available)).astype(np.int64), len(self._available) - 1)
        return np.array(self._available)[np.where(noise < self._latest, -1, places)]

    def answer(self, timeout: float) -> Answer | None:
        answer, self._answer = self._answer, None
        return answer


def joined_answers(parts: list[tuple[np.ndarray, Answer]], lanes: int) -> Answer:
    """Answers to some rows each as one answer in the order of lanes; other lanes have zeros."""

    def whole(example: np.ndarray) -> np.ndarray:
        return np.zeros((lanes, *example.shape[1:]), example.dtype)

    first = parts[0][1]
    action, state = whole(first.action), tree_map(whole, first.state)
    for rows, part in parts:
        action[rows] = part.action
        tree_map(lambda into, values, rows=rows: into.__setitem__(rows, values), state, part.state)
    return Answer(action, {}, state, -1)
