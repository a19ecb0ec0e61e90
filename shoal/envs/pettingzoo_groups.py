"""Agents of a PettingZoo game laid out in groups: who plays beside whom, under which name, in which arrays.

Agents with equal spaces form a group. An `action_mask` inside the observation is taken out of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space

from shoal.api.env import AgentGroup, Array, Codec, Tree, Turn
from shoal.api.experiment import ImagesConfig
from shoal.base.errors import InputError
from shoal.base.tree import tree_leaves, tree_map
from shoal.envs.group_names import agents_by_spaces, group_names
from shoal.envs.images import ImageResizer
from shoal.envs.pettingzoo_copies import Agent
from shoal.envs.spaces import (
    MASK,
    OBSERVATION,
    Columns,
    action_decoder,
    action_space,
    flat_mask,
    mask_width,
    observation_space,
    split_mask,
)


class Table:
    """The arrays of one group, `[rows, agents, ...]`, allocated once and written in place."""

    def __init__(
        self,
        agents: list[Agent],
        seen: Space[Any],
        acts: Space[Any],
        rows: int,
        name: str,
        images: ImagesConfig | None,
    ) -> None:
        self.agents, self.mask_width, self.spaces = agents, mask_width(acts), (seen, acts)
        seen, self.masked, self._bare = split_mask(seen, acts, name)
        self._resizer = ImageResizer(seen, images, name) if images is not None else None
        space = self._resizer.space if self._resizer is not None else observation_space(seen, name)
        self.group = AgentGroup(tuple(map(str, agents)), space, action_space(acts, name))
        self._decode = action_decoder(acts)
        self.actions: list[Any] = []
        """As the game wants them, `row * agents + slot`."""

        self.shape = shape = rows, len(agents)
        self._columns, self._final_columns = Columns(space, rows * len(agents)), Columns(space, rows * len(agents))
        self.observation, self._final = (self._by_row(each) for each in (self._columns, self._final_columns))
        self.reward = np.zeros(shape, np.float32)
        self.returns = [[0.0] * len(agents) for _ in range(rows)]
        self.terminated, self.truncated, self.acting = (np.zeros(shape, bool) for _ in range(3))
        self._fresh = np.ones(shape, bool)
        self._mask: Array | None = None
        self._ended = False

    def open(self, masked: bool) -> None:
        """Forget everything, before a reset; `masked`: masks come in `info`."""
        masked = self.masked or (masked and self.mask_width > 0)
        self._mask = np.ones((*self.shape, self.mask_width), bool) if masked else None
        for row in range(self.shape[0]):
            self.take_returns(row)
        for array in (self.acting, *_leaves(self.observation)):
            array.fill(0)
        self._fresh.fill(True)
        self.clear()

    def clear(self) -> None:
        """Before a step: nothing earned, nobody ended, everything allowed."""
        self.reward.fill(0.0)
        if self._mask is not None:
            self._mask.fill(True)
        if self._ended:
            self.terminated.fill(False)
            self.truncated.fill(False)
            self._ended = False

    def decode(self, actions: Array) -> None:
        """Keep the policy's actions `[rows, agents, ...]` as the game wants them."""
        self.actions = list(self._decode(actions.reshape(-1, *actions.shape[2:])))

    def take_returns(self, row: int) -> Array:
        """What its agents earned since the last call."""
        returns, self.returns[row] = np.array(self.returns[row]), [0.0] * self.shape[1]
        return returns

    def see_all(self, row: int, observations: list[Tree]) -> None:
        """What all agents of a copy see now, in their order."""
        if self.masked or not self._columns.put_side_by_side(row * self.shape[1], observations):
            for slot, observation in enumerate(observations):
                if observation is not None:
                    self.see(row, slot, observation)

    def see(self, row: int, slot: int, observation: Tree) -> None:
        """What an agent sees now, its mask included."""
        if self.masked:
            self.allow(row, slot, observation[MASK])
        if self._bare:
            observation = observation[OBSERVATION]
        if self._resizer is not None:
            observation = self._stacked(row, slot, self._resizer, np.asarray(observation))
        self._columns.put(row * self.shape[1] + slot, observation)

    def _stacked(self, row: int, slot: int, resizer: ImageResizer, image: Array) -> Array:
        """The newest frame behind those that the agent saw before; the first of an episode alone, repeated."""
        frame = resizer.frame(image)
        seen: Array = self.observation[row, slot]
        if self._fresh[row, slot]:
            self._fresh[row, slot] = False
            return np.tile(frame, seen.shape[-1] // resizer.channels)
        return np.concatenate([seen[..., resizer.channels :], frame], axis=-1)

    def allow(self, row: int, slot: int, mask: Any) -> None:
        """The legal actions of an agent that acts; the mask of one that waits is ignored."""
        if self._mask is None:
            raise ValueError("action_mask came with step() but not with reset(): give it with both")
        if self.acting[row, slot]:
            self._mask[row, slot] = flat_mask(mask, self.mask_width)

    def begin(self, row: int, slot: int) -> None:
        """The agent's next observation is the first of its episode."""
        self._fresh[row, slot] = True

    def end(self, row: int, slot: int, terminated: bool, truncated: bool) -> None:
        """An agent is out; `final_observation` becomes what it saw last."""
        self.terminated[row, slot], self.truncated[row, slot] = terminated, truncated
        self.acting[row, slot], self._ended = False, True
        self.begin(row, slot)
        for last, now in zip(_leaves(self._final), _leaves(self.observation), strict=True):
            last[row, slot] = now[row, slot]

    def turn(self) -> Turn:
        """A view of it all."""
        final = self._final if self._ended else None
        return Turn(self.observation, self.reward, self.terminated, self.truncated, self.acting, self._mask, final)

    def _by_row(self, columns: Columns) -> Tree:
        return tree_map(lambda leaf: leaf.reshape(*self.shape, *leaf.shape[2:]), columns.tree)


class TableCodec(Codec):
    """One agent of a game, by the table that its group has in training."""

    def __init__(
        self, agent: Agent, spaces: tuple[Space[Any], Space[Any]], rows: int, name: str, images: ImagesConfig | None
    ) -> None:
        self._table = table = Table([agent], *spaces, rows, name, images)
        table.open(masked=True)
        table.acting.fill(True)
        self.observation = tree_map(lambda array: array[:, 0], table.observation)
        mask = table.turn().action_mask
        self.mask = np.ones((rows, 0), bool) if mask is None else mask[:, 0]

    def begin(self, row: int) -> None:
        self._table.begin(row, 0)

    def put(self, row: int, observation: Any, mask: Any) -> bool:
        self._table.see(row, 0, observation)
        if mask is not None:
            self._table.allow(row, 0, mask)
        return mask is not None or self._table.masked

    def decode(self, action: Array) -> Any:
        self._table.decode(action[None, None])
        return self._table.actions[0]


def tables_of(env: Any, rows: int, name: str, images: ImagesConfig | None = None) -> dict[str, Table]:
    """The groups of a game, by name, in the order of its agents."""
    agents = agents_of(env, name)
    kinds = agents_by_spaces((agent, env.observation_space(agent), env.action_space(agent)) for agent in agents)
    names = group_names(agents for agents, _, _ in kinds)
    return {group: Table(*kind, rows, name, images) for group, kind in zip(names, kinds, strict=True)}


def agents_of(env: Any, name: str) -> list[Agent]:
    """Everybody who may ever play."""
    agents = list(getattr(env, "possible_agents", ()))
    if not agents:
        raise InputError(f"env.id = '{name}' has no possible_agents: list everybody who may play, also later")
    return agents


def check_alike(envs: list[Any], tables: dict[str, Table], name: str) -> None:
    """Every copy has the agents of the first, and groups of equal spaces."""
    first = envs[0]
    for env in envs[1:]:
        alike = agents_of(env, name) == agents_of(first, name) and all(
            getattr(env, which)(agent) == getattr(first, which)(agent)
            for agent in (table.agents[0] for table in tables.values())
            for which in ("observation_space", "action_space")
        )
        if not alike:
            raise InputError(
                f"env.id = '{name}': its copies differ in agents or spaces; all must have those of the first"
            )


def _leaves(tree: Tree) -> list[Array]:
    return [leaf for _, leaf in tree_leaves(tree)]
