"""The base class of all that is an Env around an Env: it passes everything on."""

from __future__ import annotations

import numpy as np

from shoal.api.env import Array, Codec, Env, Footprint, Step, Tree
from shoal.base.tree import tree_map


class EnvWrapper(Env):
    """A subclass changes what it is for.

    Those that go by a name in the settings are built as `(env, chosen, name=, first_slot=)`: the entry, the name of the environment
    and the number of its first copy. Their `check` makes a value of the settings one that is used, or a ValueError.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self.groups, self.num_envs = env.groups, env.num_envs
        self.game_return, self.render_fps, self.repeats = env.game_return, env.render_fps, env.repeats
        self.relives = env.relives

    @property
    def came_back(self) -> float:  # type: ignore[override]
        """Of what is inside."""
        return self._env.came_back

    def reset(self, seed: int) -> Step:
        self._env.wants_state, self._env.watched, self._env.between = self.wants_state, self.watched, self.between
        self._env.waits_for_all = self.waits_for_all
        return self._env.reset(seed)

    def send(self, actions: dict[str, Array]) -> None:
        self._env.between = self.between
        self._env.send(actions)

    def ready(self) -> bool:
        return self._env.ready()

    def recv(self, timeout: float) -> Step:
        return self._env.recv(timeout)

    def render(self, row: int) -> Array | None:
        return self._env.render(row)

    def describe(self, agent: str, observation: Tree) -> str | None:
        return self._env.describe(agent, observation)

    def action_names(self, agent: str) -> list[str] | None:
        return self._env.action_names(agent)

    def codec(self, agent: str, rows: int) -> Codec | None:
        return self._env.codec(agent, rows)

    def set_stage(self, number: int) -> bool:
        return self._env.set_stage(number)

    def limit_time(self, steps: int) -> bool:
        return self._env.limit_time(steps)

    def footprint(self) -> Footprint | None:
        return self._env.footprint()

    def close(self) -> None:
        self._env.close()

    # ------------------------------------------------------------ in the middle of episodes

    def snapshot(self) -> Tree | None:
        """What is inside, and what the wrapper remembers."""
        inside, own = self._env.snapshot(), self._contents()
        return inside if inside is None or not own else {"env": inside, "own": tree_map(np.copy, own)}

    def restore(self, tree: Tree) -> None:
        """Go on from `snapshot`."""
        own = self._contents()
        self._env.restore(tree["env"] if own else tree)
        if own:
            tree_map(np.copyto, own, tree["own"])

    def _contents(self) -> dict[str, Tree]:
        """Arrays that change from step to step, written in place; none: nothing is remembered."""
        return {}

    # ------------------------------------------------------------ for use in subclasses

    def _group_of(self, agent: str) -> str:
        return next(name for name, group in self.groups.items() if agent in group.agents)
