"""Godot games as an Env: found, started and laid out in rows."""

from __future__ import annotations

import math

from shoal.api.env import Env
from shoal.base.closing import close_all
from shoal.base.errors import InputError
from shoal.envs.game_process import find_game_file
from shoal.envs.godot.game import GodotGame
from shoal.envs.godot.settings import GodotConfig
from shoal.envs.outside_env import OutsideEnv, player_seed
from shoal.envs.outside_rows import OutsideRows

EDITOR = "editor"


class GodotEnv(OutsideEnv):
    """`target` is the path of an executable, or `editor`."""

    def __init__(self, env_id: str, target: str, config: GodotConfig, num_envs: int, *, first_slot: int = 0) -> None:
        super().__init__(config, num_envs, first_slot)
        file = None if target == EDITOR else find_game_file(env_id, target, (".x86_64",))
        games: list[GodotGame] = []
        try:
            areas = count = 1
            while len(games) < count:
                number = first_slot + len(games)
                games.append(GodotGame(file, env_id if file is None else f"{env_id}, game {number}", config))
                games[-1].launch(player_seed(config.seed, number, 0))
                if len(games) == 1:
                    games[0].greet()
                    areas = games[0].layout.areas
                    count = math.ceil(num_envs / areas)
                    if file is None and count > 1:
                        raise InputError(f"env.num_envs = {num_envs}: the editor holds {areas}: set it to that or less")
            for game in games[1:]:
                game.greet()
        except BaseException:
            close_all(games)
            raise
        layout = games[0].layout
        rows = OutsideRows(layout.groups, num_envs, {})
        for i, game in enumerate(games):
            game.join(layout, rows, i * areas, min(areas, num_envs - i * areas))
        self._open(layout.groups, areas, rows, [*games])


def make(env_id: str, target: str, kwargs: dict[str, object], num_envs: int, first_slot: int) -> Env:
    """What the factory calls."""
    return GodotEnv(env_id, target, GodotConfig.parse(kwargs, at="env.kwargs"), num_envs, first_slot=first_slot)
