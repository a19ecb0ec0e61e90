"""One agent's observations and actions without a batch around them: see `shoal.api.env.Codec`."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space

from shoal.api.env import Array, Codec, Env
from shoal.base.tree import tree_map
from shoal.envs.spaces import MASK, OBSERVATION, Columns, action_decoder, flat_mask, mask_width


class SpaceCodec(Codec):
    """By two spaces: what the group's arrays hold of observations, and the environment's own of actions.

    `masked`: observations hold their mask; `bare`: and but for that, one entry, which is what the group's arrays hold.
    """

    def __init__(
        self, seen: Space[Any], acts: Space[Any], rows: int, *, masked: bool = False, bare: bool = False
    ) -> None:
        self._masked, self._bare = masked, bare
        self._columns, self._decode, self._width = Columns(seen, rows), action_decoder(acts), mask_width(acts)
        self.observation = tree_map(lambda array: array[:, 0], self._columns.tree)
        self.mask = np.ones((rows, self._width), bool)

    def begin(self, row: int) -> None:
        """Nothing is remembered."""

    def put(self, row: int, observation: Any, mask: Any) -> bool:
        if self._masked:
            mask = observation[MASK] if mask is None else mask
            observation = observation[OBSERVATION] if self._bare else observation
        self._columns.put(row, observation)
        if mask is not None:
            self.mask[row] = flat_mask(mask, self._width)
        return mask is not None

    def decode(self, action: Array) -> Any:
        return self._decode(action[None])[0]


def codec_of(env: Env, group: str, agent: str, rows: int) -> Codec:
    """That of the environment; without one of its own, by the spaces of the agent's group."""
    spaces = env.groups[group].observation_space, env.groups[group].action_space
    return env.codec(agent, rows) or SpaceCodec(*spaces, rows)
