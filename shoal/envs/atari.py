"""Atari games, by ale-py's own batch of emulators: they step and shrink their images in threads, outside Python.

What DQN's authors made customary is done in the environment: greyscale, 84 x 84, the larger of the last two of four frames, four
such images side by side, up to 30 idle frames before an episode. Rewards stay the game's own: `env.clip_reward` bounds what
is learnt from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ale_py
import numpy as np
from gymnasium.vector import VectorEnv

from shoal.api.env import Array, Turn
from shoal.base.seeding import derive_seed
from shoal.envs.gymnasium_vector import GymnasiumVector
from shoal.envs.registry import AGENT

ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no banner per process

DEFAULTS: dict[str, Any] = {"reward_clipping": False, "autoreset_mode": "SameStep", "num_threads": 1}
"""Beside ale-py's own: scores as the game counts them, no idle step between episodes, one thread beside the actor's."""


class AtariVector(GymnasiumVector):
    """An `AtariVectorEnv`. Copies are seeded one by one, so that an episode does not depend on who else is in the batch."""

    render_fps = 15.0
    _newest: Array | None = None

    def __init__(self, env: VectorEnv[Any, Any, Any], name: str, *, first_slot: int = 0) -> None:
        super().__init__(env, name, first_slot=first_slot)
        (images, *_), group = self._space.shape or (0,), self.groups[AGENT]
        self.groups = {AGENT: replace(group, stacked=images)}

    def send(self, actions: dict[str, Array]) -> None:
        """The emulators begin at once; until `recv` the caller's time is its own."""
        self._call(self._env.send, np.ascontiguousarray(self._chosen(actions)))  # type: ignore[attr-defined]

    def render(self, row: int) -> Array | None:
        """The newest image that the copy saw, in grey unless the environment has colours."""
        if self._newest is None:
            return None
        image = self._newest[row, 0, -1]
        return image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=-1)

    def _answer(self) -> Any:
        return self._call(self._env.recv)  # type: ignore[attr-defined]

    def _turn(self, *parts: Any) -> Turn:
        turn = super()._turn(*parts)
        self._newest = turn.observation
        return turn

    def _seeds(self, seed: int) -> Array:
        slots = range(self._first_slot, self._first_slot + self.num_envs)
        return np.array([derive_seed(seed, "episode", slot, 0) for slot in slots])
