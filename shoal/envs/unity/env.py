"""Unity builds as an Env: found, started, looked at and laid out in rows."""

from __future__ import annotations

import math

from shoal.api.env import Env
from shoal.base.closing import close_all
from shoal.base.errors import InputError
from shoal.envs.game_process import find_game_file
from shoal.envs.outside_env import OutsideEnv, player_seed
from shoal.envs.outside_rows import OutsideRows
from shoal.envs.unity.build import Build
from shoal.envs.unity.build_rows import BuildRows
from shoal.envs.unity.first_look import look_at
from shoal.envs.unity.layout import lay_out
from shoal.envs.unity.settings import UnityConfig

EDITOR = "editor"


class UnityEnv(OutsideEnv):
    """`target` is the path of an executable, or `editor`."""

    def __init__(self, env_id: str, target: str, config: UnityConfig, num_envs: int, *, first_slot: int = 0) -> None:
        super().__init__(config, num_envs, first_slot)
        self._id, self._settings = env_id, config
        self._file = None if target == EDITOR else find_game_file(env_id, target, (".x86_64", ".x86"))
        started: list[Build] = []
        try:
            first = self._start(1, started)[0]
            layout = lay_out(look_at(first, config), config, env_id)
            count = math.ceil(num_envs / layout.areas)
            if self._file is None and count > 1:
                raise InputError(f"env.num_envs = {num_envs}: the editor holds {layout.areas}: set it to that or less")
            builds = [first, *self._start(count - 1, started)]
        except BaseException:
            close_all(started)
            raise
        self.game_return = "mean" if layout.shared_reward else "sum"
        widths = {s.group: s.behaviour.codec.mask_width for s in layout.sides.values() if layout.masked[s.group]}
        rows = OutsideRows(layout.groups, num_envs, widths)
        firsts = [i * layout.areas for i in range(count)]
        used = [min(layout.areas, num_envs - row) for row in firsts]
        games = [BuildRows(*each, layout, rows) for each in zip(builds, firsts, used, strict=True)]
        self._open(layout.groups, layout.areas, rows, [*games])

    def set_stage(self, number: int) -> bool:
        """Parameters with a value for each stage change with the next reset."""
        super().set_stage(number)
        return self._settings.staged

    def _start(self, count: int, started: list[Build]) -> list[Build]:
        """Further builds, side by side; whoever is started is told at once."""
        builds = []
        for _ in range(count):
            number = self._first_slot + len(started)
            name = self._id if self._file is None else f"{self._id}, build {number}"
            build = Build(self._file, name, self._settings)
            build.launch(player_seed(self._config.seed, number, 0))
            started.append(build)
            builds.append(build)
        for build in builds:
            build.greet()
        return builds


def make(env_id: str, target: str, kwargs: dict[str, object], num_envs: int, first_slot: int) -> Env:
    """What the factory calls."""
    return UnityEnv(env_id, target, UnityConfig.parse(kwargs, at="env.kwargs"), num_envs, first_slot=first_slot)
