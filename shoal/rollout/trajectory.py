"""The trajectory builder: decisions and outcomes of one policy's lanes in, fragments out.

Every lane has a cursor: the row of its open decision. An outcome closes the row and moves the cursor on; a truncation moves it
one further, over a row that holds the final observation. A fragment is posted when its first lane is full; whatever decision
is due then opens the next one. Steps are written into *cells*, the rows of a fragment laid end to end, so that cell
`row * lanes + lane` is where a lane's cursor points: one slice while all cursors agree, one indexed write once they differ.

Legal order: `begin` until it gives True, `decide`, `observe`; again from `begin`. `flush` may follow on `begin`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.api.algorithm import Needs
from shoal.api.fragment import Fragment
from shoal.base.tree import Tree, tree_map
from shoal.streams.inference import Answer
from shoal.streams.sample import Posted, SampleWriter

COLUMNS = (
    "observation",
    "action",
    "reward",
    "terminated",
    "truncated",
    "valid",
    "first",
    "version",
    "extras",
    "action_mask",
)
"""Fields with rows; what is carried from fragment to fragment."""
_ALL = slice(None)


@dataclass
class View:
    """What a policy's lanes see now: a Turn with its agents laid out as lanes. Arrays `[B, ...]`."""

    observation: Tree
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    acting: np.ndarray
    action_mask: np.ndarray | None
    final_observation: Tree | None


class TrajectoryBuilder:
    """Builds fragments of `len(lanes)` lanes. Process-free: the stream decides where the rows lie."""

    def __init__(
        self, needs: Needs, lanes: np.ndarray, stream: SampleWriter, *, reward_scale: float = 1.0,
        clip_reward: float | None = None, prepare: Callable[[Fragment], Fragment] = lambda fragment: fragment,
    ) -> None:  # fmt: skip
        self._needs, self._lanes, self._stream = needs, lanes, stream
        self._scale, self._bound = np.float32(reward_scale), clip_reward
        self._prepare = prepare
        self._rows = needs.burn_in + needs.unroll + needs.bootstrap
        self._carry = needs.burn_in + needs.bootstrap - 1
        self._slot: Posted | None = None
        self._cells: Fragment | None = None
        self._cursor = np.full(len(lanes), self._carry)
        self._row: int | None = self._carry
        self._pending = np.zeros(len(lanes), np.bool_)
        self._waiting = False
        self._earned = np.zeros(len(lanes), np.float32)
        self._first = np.ones(len(lanes), np.bool_)
        self._carried: dict[str, Tree] | None = None
        self._states: Tree | None = None
        self._state_cells: Tree | None = None
        self._steps = 0
        self._all = np.arange(len(lanes))

    @property
    def posted(self) -> int:
        """Fragments handed over so far: the number of the round that is being built."""
        return self._stream.posted

    @property
    def first(self) -> np.ndarray:
        """bool [B]: the next decision of the lane starts an episode."""
        return self._first

    # ------------------------------------------------------------ between two fragments

    @property
    def between(self) -> bool:
        """A fragment was posted, and the next one has no slot yet."""
        return self._slot is None

    def snapshot(self) -> Tree:
        """What the next fragment begins with. Only between two."""
        assert self.between, "in the middle of a fragment"
        columns = {"pending": self._pending, "earned": self._earned, "first": self._first}
        # carried rows are gathered anew for each fragment and never written to
        return {**tree_map(np.copy, columns), "waiting": self._waiting, "carried": self._carried}

    def restart(self) -> None:
        """New episodes begin everywhere, and nothing is known of those that were open. Only between two."""
        assert self.between, "in the middle of a fragment"
        self._pending[:], self._earned[:], self._first[:] = False, 0.0, True
        self._waiting, self._carried = False, None

    def restore(self, tree: Tree) -> None:
        """Go on from `snapshot`."""
        self._pending[:], self._earned[:], self._first[:] = tree["pending"], tree["earned"], tree["first"]
        self._waiting, self._carried = tree["waiting"], tree["carried"]

    # ------------------------------------------------------------ begin

    def begin(self, state: Tree | None, timeout: float = 0.0) -> bool:
        """Make sure there is a slot to write into; `state` is the recurrent state before the decision that is due."""
        if self._slot is not None:
            return True
        self._slot = self._stream.begin(timeout)
        if self._slot is None:
            return False
        fragment = self._slot.fragment
        fragment.valid[:] = False
        fragment.first[:] = False
        fragment.lanes[:] = self._lanes
        self._cells = replace(fragment, **{name: tree_map(_end_to_end, getattr(fragment, name)) for name in COLUMNS})
        if state is not None:
            if self._states is None:
                self._states = tree_map(lambda leaf: np.zeros((self._rows, *leaf.shape), leaf.dtype), state)
                self._state_cells = tree_map(_end_to_end, self._states)
            tree_map(np.copyto, fragment.state, state)
        if self._carried is not None:
            self._write_carried(fragment, self._carried)
            self._carried = None
        return True

    def _write_carried(self, fragment: Fragment, carried: dict[str, Tree]) -> None:
        """Rows 0 .. carry repeat what the last fragment ended with; the last of them is the open decision, if there is one."""

        def put(array: np.ndarray, rows: np.ndarray) -> None:
            array[: self._carry + 1] = rows

        for name in COLUMNS:
            tree_map(put, getattr(fragment, name), carried[name])
        if self._states is None:
            return
        tree_map(put, self._states, carried["states"])
        known = np.ones_like(self._pending) if self._carry else self._pending

        def put_state(array: np.ndarray, rows: np.ndarray) -> None:
            array[known] = rows[0, known]

        tree_map(put_state, fragment.state, carried["states"])

    # ------------------------------------------------------------ decide

    def decide(self, view: View, answer: Answer, state: Tree | None) -> None:
        """Note what the acting lanes saw and decided; `state` is the recurrent state they decided with."""
        cells = self._open_cells
        at, pick = self._place(view.acting)

        def put(array: np.ndarray, values: np.ndarray) -> None:
            array[at] = values[pick]

        tree_map(put, cells.observation, view.observation)
        put(cells.action, answer.action)
        put(cells.first, self._first)
        cells.version[at] = answer.version
        for name, values in answer.extras.items():
            put(cells.extras[name], values)
        if cells.action_mask is not None:
            cells.action_mask[at] = True if view.action_mask is None else view.action_mask[pick]
        if self._states is not None:
            tree_map(put, self._state_cells, state)
        self._pending |= view.acting
        self._first[pick] = False

    @property
    def _open_cells(self) -> Fragment:
        assert self._cells is not None, "begin comes first"
        return self._cells

    def _place(self, mask: np.ndarray) -> tuple[Any, Any]:
        """Index into the cells of the masked lanes' cursors, index into lanes of `[B, ...]` values."""
        count = len(mask)
        if np.count_nonzero(mask) < count:
            lanes = np.nonzero(mask)[0]
            return self._cursor[lanes] * count + lanes, lanes
        if self._row is None:
            return self._cursor * count + self._all, _ALL
        return slice(self._row * count, (self._row + 1) * count), _ALL

    # ------------------------------------------------------------ observe

    def observe(self, view: View, steps: int) -> bool:
        """Close the decisions whose outcome is known: their agent acts again, or its episode ended. True: a fragment was posted."""
        self._steps += steps
        if self._scale != 1.0:
            view = replace(view, reward=view.reward * self._scale)
        if self._bound is not None:
            view = replace(view, reward=view.reward.clip(-self._bound, self._bound))
        ended = view.terminated | view.truncated
        closing = self._pending & (view.acting | ended)
        count = np.count_nonzero(closing)
        if count:
            self._close(view, closing)
        if self._waiting or count < len(closing):
            self._earned += np.where(self._pending & ~closing, view.reward, 0.0)
            self._waiting = bool(self._earned.any())
        self._pending ^= closing  # a part of it
        self._first |= ended
        limit = self._rows - 1
        if (self._row if self._row is not None else self._cursor.max()) < limit:
            return False
        self._finish(view)
        return True

    def _close(self, view: View, closing: np.ndarray) -> None:
        cells = self._open_cells
        at, pick = self._place(closing)
        reward = view.reward
        if self._waiting:
            reward = reward + self._earned
            self._earned[pick] = 0.0
        cells.reward[at] = reward[pick]
        cells.terminated[at] = view.terminated[pick]
        cells.truncated[at] = view.truncated[pick]
        cells.valid[at] = True
        self._advance(pick)
        if np.count_nonzero(view.truncated) and (cut := closing & view.truncated & ~view.terminated).any():
            final, mask = view.final_observation, view.action_mask
            self._write_unacted(*((view.observation, mask) if final is None else (final, None)), cut)
            self._advance(np.nonzero(cut)[0])

    def _advance(self, lanes: Any) -> None:
        if lanes is _ALL:  # whether cursors agree does not change
            self._cursor += 1
            self._row = None if self._row is None else self._row + 1
            return
        self._cursor[lanes] += 1
        low, high = int(self._cursor.min()), int(self._cursor.max())
        self._row = low if low == high else None

    def _write_unacted(self, observation: Tree, action_mask: np.ndarray | None, lanes: np.ndarray) -> None:
        """An observation that is only looked at: what a truncation left behind, or what a fragment ends with.

        Environments that reset in the same step do not say what was allowed at the end: then everything was.
        """
        cells = self._open_cells
        at, pick = self._place(lanes)

        def put(array: np.ndarray, values: np.ndarray) -> None:
            array[at] = values[pick]

        tree_map(put, cells.observation, observation)
        cells.first[at] = False
        cells.version[at] = -1
        if cells.action_mask is not None:
            cells.action_mask[at] = True if action_mask is None else action_mask[pick]

    # ------------------------------------------------------------ finish

    def flush(self, view: View) -> None:
        """Post now what is there, full or not. `view`: the one that was last observed, before anything was decided on it."""
        self._finish(view)

    def _finish(self, view: View) -> None:
        """Post: every lane ends with the observation its last closed decision led to."""
        assert self._slot is not None
        fragment, header = self._slot.fragment, self._slot.header
        room = ~self._pending & (self._cursor < self._rows)
        if room.any():
            self._write_unacted(view.observation, view.action_mask, room)
            at, pick = self._place(room)
            self._open_cells.first[at] = self._first[pick]
        if self._carry or self._pending.any():
            self._carried = self._gather(fragment)
        fragment.valid[: self._needs.burn_in] = False
        if self._needs.bootstrap > 1:
            learnable = self._cursor - (self._needs.bootstrap - 1)
            fragment.valid[np.arange(self._rows)[:, None] >= learnable] = False
        header["rows"] = np.count_nonzero(fragment.valid)
        header["steps"] = self._steps
        header["version"] = fragment.version[fragment.valid].min() if header["rows"] else 0
        tree_map(_put_other, vars(fragment), vars(self._prepare(fragment)))
        self._stream.post(self._slot)
        self._slot, self._cells, self._steps = None, None, 0
        self._cursor[:] = self._row = self._carry

    def _gather(self, fragment: Fragment) -> dict[str, Tree]:
        """Each lane's last closed rows and its open one: `[carry + 1, B, ...]`."""
        rows = np.minimum(self._cursor - self._carry + np.arange(self._carry + 1)[:, None], self._rows - 1)

        def last(array: np.ndarray) -> np.ndarray:
            return array[rows, self._all]

        carried = {name: tree_map(last, getattr(fragment, name)) for name in COLUMNS}
        carried["valid"][-1] = False
        carried["first"][-1] &= self._pending
        carried["states"] = tree_map(last, self._states)
        return carried


def _put_other(array: np.ndarray, values: np.ndarray) -> None:
    """Into the slot, unless it is what lies there."""
    if values is not array:
        array[...] = values


def _end_to_end(array: np.ndarray) -> np.ndarray:
    """`[R, B, ...]` -> `[R * B, ...]`: a view, since slots are whole blocks of memory."""
    return array.reshape(-1, *array.shape[2:])
