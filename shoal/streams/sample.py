"""The sample stream: fragments from actors to trainers, in slots of rings.

An actor writes rows straight into the slot that the trainer will read. The header travels in the slot: it outlives whoever
wrote it, so that rows can be counted even after a crash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from shoal.api.algorithm import Needs
from shoal.api.env import AgentGroup
from shoal.api.fragment import Fragment, FragmentId
from shoal.api.policy import Policy
from shoal.base.arrays import Layout
from shoal.base.tree import Tree, tree_map
from shoal.streams.primitives import Ring, Slot

HEADER = np.dtype([(name, np.int64) for name in ("producer", "incarnation", "sequence", "rows", "steps", "version")])
"""rows: valid ones; steps: environment steps behind them; version: the oldest that decided."""


def fragment_layout(group: AgentGroup, needs: Needs, policy: Policy, lanes: int, mask_width: int | None) -> Layout:
    """What one slot holds: a fragment of `lanes` lanes, and its header."""
    rows = needs.burn_in + needs.unroll + needs.bootstrap

    def column(shape: tuple[int, ...] = (), dtype: Any = np.float32) -> np.ndarray:
        return np.lib.stride_tricks.as_strided(np.zeros((), dtype), (rows, lanes, *shape), (0,) * (2 + len(shape)))

    fragment = Fragment(
        observation=space_columns(group.observation_space, column),
        action=column(group.action_space.shape or (), action_dtype(group)),
        reward=column(),
        terminated=column(dtype=np.bool_),
        truncated=column(dtype=np.bool_),
        valid=column(dtype=np.bool_),
        first=column(dtype=np.bool_),
        version=column(dtype=np.int64),
        extras={name: column(shape) for name, shape in policy.extras.items()},
        action_mask=column((mask_width,), np.bool_) if mask_width else None,
        state=tree_map(lambda t: t.numpy(), policy.initial_state(lanes)),
        lanes=np.zeros(lanes, np.int64),
    )
    return Layout.of({"fragment": vars(fragment), "header": np.zeros((), HEADER)})


def space_columns(space: Any, column: Any) -> Tree:
    """The arrays of an observation space, nested as the space is."""
    if isinstance(space, spaces.Dict):
        return {key: space_columns(part, column) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(space_columns(part, column) for part in space.spaces)
    return column(space.shape, space.dtype)


def action_dtype(group: AgentGroup) -> type[np.generic]:
    """Choices are int64, forces are float32."""
    return np.float32 if np.issubdtype(group.action_space.dtype, np.floating) else np.int64


@dataclass
class Posted:
    """A slot seen as what it holds."""

    slot: Slot
    fragment: Fragment
    header: np.ndarray

    @property
    def id(self) -> FragmentId:
        """Who made it."""
        return FragmentId(*(int(self.header[name]) for name in FragmentId._fields))


def _open(slot: Slot) -> Posted:
    return Posted(slot, Fragment(**slot.arrays["fragment"]), slot.arrays["header"])


class SampleWriter:
    """The actor's end of one ring. `posted` counts rounds of the whole run, so a resumed one starts beyond 0."""

    def __init__(self, ring: Ring, producer: int, *, incarnation: int = 0, posted: int = 0) -> None:
        self._ring, self._producer, self._incarnation = ring, producer, incarnation
        self.posted = posted

    def begin(self, timeout: float) -> Posted | None:
        """A free slot, its header filled with who writes it; None if there is no credit."""
        slot = self._ring.begin(timeout)
        if slot is None:
            return None
        opened = _open(slot)
        opened.header["producer"] = self._producer
        opened.header["incarnation"] = self._incarnation
        opened.header["sequence"] = self.posted
        return opened

    def post(self, posted: Posted) -> None:
        """Hand it over."""
        self._ring.post(posted.slot)
        self.posted += 1


class SampleReader:
    """The trainer's end: rings read in a fixed order, one fragment of each makes a round."""

    def __init__(self, rings: list[Ring]) -> None:
        self._rings = rings
        self._waiting: list[Posted] = []

    def take(self, timeout: float) -> list[Posted] | None:
        """A whole round, in ring order whatever the order of arrival; None while one is missing."""
        while len(self._waiting) < len(self._rings):
            slot = self._rings[len(self._waiting)].take(timeout)
            if slot is None:
                return None
            self._waiting.append(_open(slot))
        taken, self._waiting = self._waiting, []
        return taken

    def free(self, taken: list[Posted]) -> None:
        """Give a round's slots back: after the version trained on them is published, so that credits bound the lag."""
        for ring, posted in zip(self._rings, taken, strict=True):
            ring.free(posted.slot)
