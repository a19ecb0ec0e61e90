"""The last observations side by side, so that a policy without memory sees what moves.

A stack moves on when its agent acts: what an agent that waits is shown in between is only laid behind what it acted on before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Tuple

from shoal.api.env import Array, Codec, Env, Step, Tree, Turn
from shoal.base.errors import InputError
from shoal.base.tree import tree_leaves, tree_map
from shoal.envs.codec import codec_of
from shoal.envs.spaces import Columns
from shoal.envs.wrappers.values import Chosen, whole_number
from shoal.envs.wrappers.wrapper import EnvWrapper


class FrameStack(EnvWrapper):
    """The last observations, the newest last; an episode begins with its first, repeated."""

    def __init__(self, env: Env, chosen: Chosen, *, name: str, first_slot: int) -> None:
        super().__init__(env)
        self.groups, self._frames = {}, dict[str, Frames]()
        for group, known in env.groups.items():
            space = _stacked(known.observation_space, chosen)
            # replay keeps each image once where observations are one array
            images = chosen.value if isinstance(space, Box) else 0
            self.groups[group] = replace(known, observation_space=space, stacked=images)
            self._frames[group] = Frames(space, (env.num_envs, len(known.agents)))

    @classmethod
    def check(cls, value: Any) -> int:
        """How many."""
        return whole_number(value, 2, "frame_stack: 4")

    def reset(self, seed: int) -> Step:
        step = super().reset(seed)
        for frames in self._frames.values():
            frames.open()
        return self._shown(step)

    def recv(self, timeout: float) -> Step:
        return self._shown(super().recv(timeout))

    def describe(self, agent: str, observation: Tree) -> str | None:
        """The newest."""
        return super().describe(agent, tree_map(lambda array: array[-1], observation))

    def codec(self, agent: str, rows: int) -> Codec:
        group = self._group_of(agent)
        return StackCodec(codec_of(self._env, group, agent, rows), self.groups[group].observation_space, rows)

    def _contents(self) -> dict[str, Tree]:
        return {group: vars(frames) for group, frames in self._frames.items()}

    def _shown(self, step: Step) -> Step:
        over = [episode.row for episode in step.episodes]
        turns = {group: self._frames[group].see(turn, over) for group, turn in step.turns.items()}
        return replace(step, turns=turns)


class Frames:
    """What the agents of one group are shown; `[rows, agents, frames, ...]`, the oldest first."""

    def __init__(self, space: Space[Any], shape: tuple[int, int]) -> None:
        rows, agents = shape
        tree = Columns(space, rows * agents).tree
        self.shown: Tree = tree_map(lambda array: array.reshape(*shape, *array.shape[2:]), tree)
        self.fresh = np.ones(shape, bool)
        """Whose next observation is the first of an episode."""
        self.acted = np.zeros(shape, bool)
        """Who acted on what it was shown last."""

    def open(self) -> None:
        """Episodes begin everywhere."""
        self.fresh[:], self.acted[:] = True, False

    def see(self, turn: Turn, over: list[int]) -> Turn:
        """The turn with stacks for observations. `over`: rows whose episodes ended."""
        ended = turn.terminated | turn.truncated
        ended[over] = True
        self._move_on()
        final = turn.final_observation
        if final is not None:  # what is seen now belongs to the next episodes already
            final = tree_map(self._behind, tree_map(np.copy, self.shown), final)
            self.fresh |= ended
        tree_map(self._behind, self.shown, turn.observation)
        np.copyto(self.acted, turn.acting)
        self.fresh &= ~turn.acting
        if final is None:
            self.fresh |= ended
        return replace(turn, observation=self.shown, final_observation=final)

    def _move_on(self) -> None:
        """The oldest goes, where the newest was acted on."""
        if self.acted.all():
            tree_map(lambda array: np.copyto(array[:, :, :-1], array[:, :, 1:].copy()), self.shown)
        elif self.acted.any():
            for _, array in tree_leaves(self.shown):
                array[self.acted, :-1] = array[self.acted, 1:]

    def _behind(self, frames: Array, newest: Array) -> Array:
        """Lay the newest behind those before it; the first of an episode stands alone, repeated."""
        frames[:, :, -1] = newest
        if self.fresh.any():
            frames[self.fresh] = newest[self.fresh][:, None]
        return frames


class StackCodec(Codec):
    """Single observations as stacks: each that is put was acted on."""

    def __init__(self, inner: Codec, space: Space[Any], rows: int) -> None:
        self._inner, self.mask = inner, inner.mask
        self.observation = tree_map(lambda array: array[:, 0], Columns(space, rows).tree)
        self._fresh = np.ones(rows, bool)

    def begin(self, row: int) -> None:
        self._inner.begin(row)
        self._fresh[row] = True

    def put(self, row: int, observation: Any, mask: Any) -> bool:
        masked = self._inner.put(row, observation, mask)

        def push(frames: Array, seen: Array) -> None:
            if not self._fresh[row]:
                frames[row, :-1] = frames[row, 1:].copy()
            frames[row, slice(None) if self._fresh[row] else -1] = seen[row]

        tree_map(push, self.observation, self._inner.observation)
        self._fresh[row] = False
        return masked

    def decode(self, action: Array) -> Any:
        return self._inner.decode(action)


def _stacked(space: Space[Any], chosen: Chosen) -> Space[Any]:
    if isinstance(space, Dict):
        return Dict([(key, _stacked(part, chosen)) for key, part in space.spaces.items()])
    if isinstance(space, Tuple):
        return Tuple([_stacked(part, chosen) for part in space.spaces])
    if not isinstance(space, Box):
        raise InputError(f"{chosen.said}: observations of {space} cannot be stacked; put one_hot or flatten before it")
    low, high = (np.repeat(bound[None], chosen.value, axis=0) for bound in (space.low, space.high))
    return Box(low, high, dtype=space.dtype.type)
