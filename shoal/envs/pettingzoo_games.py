"""The games of PettingZoo and MPE2 by their ids: `mpe2/simple_spread_v3`, `classic/tictactoe_v3`, `pettingzoo/sisl/pursuit_v5`.

A game comes as the function that builds one copy: parallel where the game offers it, else turn by turn (AEC). Nothing of
PettingZoo is imported before such an id is used.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.base.errors import InputError
from shoal.base.table import did_you_mean
from shoal.envs.families import Family, is_there, missing
from shoal.envs.game_relatives import RELATIVES
from shoal.envs.rllib_game import RllibGame

FAMILIES = {
    "mpe2": Family("mpe2", "mpe"),
    "classic": Family("pettingzoo.classic", "classic"),
    "butterfly": Family("pettingzoo.butterfly", "butterfly"),
    "sisl": Family("pettingzoo.sisl", "sisl"),
    "atari": Family("pettingzoo.atari", "pettingzoo-atari"),
    "magent2": Family("magent2.environments", "magent2"),
}
FORGOTTEN = {"butterfly/knights_archers_zombies_v11": "zombie_spawn_interval"}
"""Counters that a game's own reset leaves running, so that an episode would depend on the one before."""
UNDRAWN = {"butterfly/pistonball_v6"}
"""Games that draw what their agents see only when they are to be rendered: without it, all see an empty image for ever."""
SHARED = {
    "pistonball", "simple_formation", "simple_line", "simple_reference", "simple_speaker_listener", "simple_spread",
}  # fmt: skip
"""Games whose agents all earn one shared reward, or a mix with it: by the name they give themselves, without the version."""
_GAME = re.compile(r"\w+_v\d+$")


def is_game_id(env_id: str) -> bool:
    """Whether PettingZoo is the place to look: its versions are written `_v3`, those of gymnasium `-v3`."""
    if ":" in env_id:
        return False
    return env_id.partition("/")[0] in {*FAMILIES, *RELATIVES, "pettingzoo"} or _GAME.search(env_id) is not None


def is_game(product: object) -> bool:
    """A ParallelEnv, an AECEnv or a game of RLlib's. Of the first two there are none before PettingZoo was imported."""
    if isinstance(product, RllibGame):
        return True
    zoo = sys.modules.get("pettingzoo")
    return zoo is not None and isinstance(product, zoo.ParallelEnv | zoo.AECEnv)


def shares_reward(game: Any) -> bool:
    """Whether the game's return is what one agent earns, and not what all of them earn together."""
    name = str((getattr(game, "metadata", None) or {}).get("name", ""))
    return re.sub(r"_v\d+$", "", name) in SHARED


def find_game(env_id: str) -> Callable[..., Any]:
    """The function that builds one copy of the game."""
    family, _, game = env_id.removeprefix("pettingzoo/").partition("/")
    if family in RELATIVES:
        package, extra, find = RELATIVES[family]
        if not (is_there(package) and is_there("pettingzoo")):
            raise missing(env_id, extra)
        return find(game)
    if family not in FAMILIES:
        known = [name for each in FAMILIES for name in _games_of(each)]
        raise InputError(f"env.id = '{env_id}' is not known to PettingZoo; {_advice(env_id, known)}")
    package, extra = FAMILIES[family]
    if not is_there(package):
        raise missing(env_id, extra)
    if f"{family}/{game}" not in (known := _games_of(family)):
        raise InputError(f"env.id = '{env_id}' is not a game of {package}; {did_you_mean(f'{family}/{game}', known)}")
    draw_without_screen()
    try:
        with warnings.catch_warnings():
            # PettingZoo prefers its registry; MPE2 has none, and both have these modules.
            warnings.simplefilter("ignore", DeprecationWarning)
            module = importlib.import_module(f"{package}.{game}")
    except ModuleNotFoundError as error:
        raise missing(env_id, extra) from error
    build = getattr(module, "parallel_env", None) or module.env
    return _builder(build, module.raw_env, FORGOTTEN.get(f"{family}/{game}"), _always(f"{family}/{game}"))


def _always(env_id: str) -> dict[str, Any]:
    """Settings of a game that nobody has to write."""
    if env_id in UNDRAWN:
        return {"render_mode": "rgb_array"}
    if env_id.startswith("atari/"):
        return {"auto_rom_install_path": _atari_games(env_id)}
    return {}


def _atari_games(env_id: str) -> str:
    """The folder of the games that ale-py brings: PettingZoo has none."""
    found = importlib.util.find_spec("ale_py")
    if found is None or found.origin is None:
        raise missing(env_id, FAMILIES["atari"].extra)
    return str(Path(found.origin).parent / "roms")


def draw_without_screen() -> None:
    """Where there is no screen, pygame draws in memory and does not look for one."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def _games_of(family: str) -> list[str]:
    """Ids, as far as the package is installed."""
    package = FAMILIES[family].package
    if not is_there(package):
        return []
    names = (module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__))
    return [f"{family}/{name}" for name in names if _GAME.fullmatch(name)]


def _advice(env_id: str, known: list[str]) -> str:
    if known:
        return did_you_mean(env_id, known)
    return 'install its games, as in pip install "shoal[mpe]"'


def _builder(build: Callable[..., Any], game: Any, counter: str | None, always: dict[str, Any]) -> Callable[..., Any]:
    """Builds a copy whose resets are whole; carries what the game says of itself: whether it draws."""

    def make(**kwargs: Any) -> Any:
        env = build(**always | kwargs)
        if counter is not None:
            _reset_also(env.unwrapped, counter)
        return env

    make.metadata = getattr(game, "metadata", {})  # type: ignore[attr-defined]
    return make


def _reset_also(game: Any, counter: str) -> None:
    reset = game.reset

    def reset_all(*args: Any, **kwargs: Any) -> Any:
        getattr(game, counter).reset()
        return reset(*args, **kwargs)

    game.reset = reset_all
