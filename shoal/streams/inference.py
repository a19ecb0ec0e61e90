"""The inference stream: requests of lanes in, decisions out. An actor does not know whether its policy lives next door or here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from shoal.api.policy import Policy, Request
from shoal.base.device import CPU
from shoal.base.sizes import even_size, fixed_size
from shoal.base.transfer import to_cpu, to_device
from shoal.base.tree import Tree, tree_map
from shoal.streams.parameter import ParameterReader


@dataclass
class Ask:
    """B lanes, of which some or all must decide; numpy arrays `[B, ...]`."""

    observation: Tree
    first: np.ndarray
    noise: np.ndarray
    state: Tree | None
    action_mask: np.ndarray | None
    knobs: np.ndarray | None = None
    acting: np.ndarray | None = None
    """Which of them must decide; the answer to the others is anything of the right shape. None: all."""


@dataclass
class Answer:
    """Numpy arrays `[B, ...]` and the version that decided."""

    action: np.ndarray
    extras: dict[str, np.ndarray]
    state: Tree | None
    version: int


class InferenceClient(ABC):
    """One policy, as an actor sees it."""

    remembers: bool = False
    """What it decides depends on more than version and request: it cannot be taken up in the middle of an episode."""

    @abstractmethod
    def pin(self, round_: int) -> bool:
        """Act with the version of this round from now on; False: it is not there yet."""

    @abstractmethod
    def ask(self, ask: Ask) -> None:
        """Send a request; one at a time."""

    @abstractmethod
    def answer(self, timeout: float) -> Answer | None:
        """What became of it; None if it takes longer."""


class InlineInference(InferenceClient):
    """The policy lives in this process."""

    def __init__(self, policy: Policy, reader: ParameterReader, *, explore: bool = True) -> None:
        self._policy, self._reader, self._explore = policy, reader, explore
        self._answer: Answer | None = None

    def pin(self, round_: int) -> bool:
        return self._reader.pin(round_)

    def ask(self, ask: Ask) -> None:
        self._answer = decide(self._policy, ask, explore=self._explore, version=self._reader.version)

    def answer(self, timeout: float) -> Answer | None:
        answer, self._answer = self._answer, None
        return answer


def decide(
    policy: Policy, ask: Ask, *, explore: bool, version: int, device: torch.device = torch.device("cpu")
) -> Answer:  # fmt: skip
    """One padded forward, by a policy that lives on `device`. Other devices than CPUs see batches of a few sizes alone.

    Where many lanes wait for their turn it is a forward of the others: a row's bits do not depend on its batch.
    """
    turns = _turns(ask)
    if turns is not None:
        part = decide(policy, ask_rows(ask, turns), explore=explore, version=version, device=device)
        return _spread(part, turns, len(ask.first))
    rows = len(ask.first)
    padded = _padded(rows, even_size(rows) if device.type == CPU else fixed_size(rows))
    quick = policy.quick()
    if quick is None:
        return _decide_by_torch(policy, ask, padded, explore=explore, version=version, device=device)
    columns = (ask.observation, ask.noise, ask.action_mask)
    if padded is not None:
        columns = tree_map(lambda array: array.take(padded, 0), columns)
    action, extras = quick(*columns, explore=explore)
    return Answer(action[:rows], {name: value[:rows] for name, value in extras.items()}, None, version)


def _turns(ask: Ask) -> np.ndarray | None:
    """The rows that must decide, at least one; None: so many that it saves next to nothing to pass over the others."""
    if ask.acting is None:
        return None
    lanes, turns = len(ask.acting), int(np.count_nonzero(ask.acting))
    if even_size(max(turns, 1)) * 4 > even_size(lanes) * 3:
        return None
    return np.flatnonzero(ask.acting) if turns else np.zeros(1, np.int64)


def ask_rows(ask: Ask, rows: np.ndarray) -> Ask:
    """Of these lanes alone."""

    def cut(array: np.ndarray) -> np.ndarray:
        return array.take(rows, 0)

    return Ask(
        tree_map(cut, ask.observation), cut(ask.first), cut(ask.noise), tree_map(cut, ask.state),
        tree_map(cut, ask.action_mask), tree_map(cut, ask.knobs), tree_map(cut, ask.acting),
    )  # fmt: skip


def _spread(answer: Answer, rows: np.ndarray, lanes: int) -> Answer:
    """An answer to these rows as one to all lanes; the others have what the first of the rows has."""

    def whole(values: np.ndarray) -> np.ndarray:
        array = np.empty((lanes, *values.shape[1:]), values.dtype)
        array[:] = values[0]
        array[rows] = values
        return array

    return Answer(whole(answer.action), tree_map(whole, answer.extras), tree_map(whole, answer.state), answer.version)


@torch.inference_mode()
def appraise(policy: Policy, ask: Ask, action: np.ndarray) -> dict[str, np.ndarray]:
    """What a policy thinks of what it decided: see `Policy.appraise`."""
    rows = len(ask.first)
    padded = _padded(rows, even_size(rows))
    said = policy.appraise(_request(ask, padded), _tensor(action, padded))
    return {name: value.numpy()[:rows] for name, value in said.items()}


@torch.inference_mode()
def _decide_by_torch(
    policy: Policy, ask: Ask, padded: np.ndarray | None, *, explore: bool, version: int, device: torch.device
) -> Answer:
    rows, request = len(ask.first), _request(ask, padded)
    if device.type != CPU:
        request = Request(**to_device(vars(request), device))
    decision = policy.act(request, explore=explore)
    said: Tree = (decision.action, decision.extras, decision.state)
    action, extras, state = tree_map(lambda t: t.numpy()[:rows], said if device.type == CPU else to_cpu(said))
    return Answer(action, extras, state, version)


def _request(ask: Ask, padded: np.ndarray | None) -> Request:
    def tensor(array: np.ndarray) -> torch.Tensor:
        return _tensor(array, padded)

    return Request(
        observation=tree_map(tensor, ask.observation),
        first=tensor(ask.first),
        noise=tensor(ask.noise),
        state=tree_map(tensor, ask.state),
        action_mask=None if ask.action_mask is None else tensor(ask.action_mask),
        knobs=None if ask.knobs is None else tensor(ask.knobs),
    )


def _tensor(array: np.ndarray, padded: np.ndarray | None) -> torch.Tensor:
    return torch.from_numpy(array if padded is None else array.take(padded, 0))


@lru_cache(maxsize=256)
def _padded(rows: int, size: int) -> np.ndarray | None:
    """Which rows make a padded batch: all, then the last again and again. None: no more are needed."""
    return np.minimum(np.arange(size), rows - 1) if size > rows else None
