"""The games of PettingZoo and MPE2: found by id, explained where not, and each held against the contract of Env."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pettingzoo import AECEnv, ParallelEnv

from shoal.api.env import Env
from shoal.api.experiment import EnvConfig
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.envs.factory import forms_of
from shoal.envs.pettingzoo_games import _games_of
from shoal.envs.pettingzoo_loop import PettingZooLoop
from shoal.testing.env import check_env, main_check
from shoal.testing.sampler import ActionSampler

PARTICLES = [
    "mpe2/collect_treasure_v1", "mpe2/simple_adversary_v3", "mpe2/simple_crypto_v3", "mpe2/simple_formation_v1",
    "mpe2/simple_line_v1", "mpe2/simple_push_v3", "mpe2/simple_reference_v3", "mpe2/simple_speaker_listener_v4",
    "mpe2/simple_spread_v3", "mpe2/simple_tag_v3", "mpe2/simple_v3", "mpe2/simple_world_comm_v3",
]  # fmt: skip
BOARDS = ["classic/tictactoe_v3", "classic/connect_four_v3", "classic/rps_v2", "classic/leduc_holdem_v4"]
CARDS = ["classic/texas_holdem_v4", "classic/texas_holdem_no_limit_v6", "classic/chess_v6", "classic/go_v5"]
PISTONS = {"n_pistons": 2, "max_cycles": 20}
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("butterfly/pistonball_v6", PISTONS),
    ("butterfly/knights_archers_zombies_v11", {"max_cycles": 20}),
    ("sisl/pursuit_v5", {"max_cycles": 20, "n_pursuers": 3}),
    ("sisl/multiwalker_v9", {"max_cycles": 20}),
]
GAMES = [(env_id, {}) for env_id in [*PARTICLES, *BOARDS]] + BODIES


def made(env_id: str, copies: int = 2, *, render: bool = False, **settings: Any) -> Env:
    return make_env(EnvConfig(id=env_id, **settings), copies, render=render)


def refused(env_id: str, **settings: Any) -> str:
    with pytest.raises(InputError) as caught:
        made(env_id, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("env_id", "groups", "acting"),
    [
        ("mpe2/simple_spread_v3", {"agent": 3}, 3),
        ("mpe2/simple_speaker_listener_v4", {"speaker": 1, "listener": 1}, 2),
        ("mpe2.simple_spread_v3:env", {"agent": 3}, 1),
        ("mpe2.simple_spread_v3:parallel_env", {"agent": 3}, 3),
        ("classic/connect_four_v3", {"player": 2}, 1),
        ("pettingzoo/classic/connect_four_v3", {"player": 2}, 1),
        ("classic/rps_v2", {"player": 2}, 2),
        ("sisl/pursuit_v5", {"pursuer": 8}, 8),
        ("pettingzoo/sisl/pursuit_v5", {"pursuer": 8}, 8),
        ("zoo_worlds:make_duel", {"p": 2}, 1),
        ("zoo_worlds:make_together", {"p": 2}, 2),
    ],
)
def test_ids_find_their_game(env_id: str, groups: dict[str, int], acting: int) -> None:
    env = made(env_id, 2)
    assert type(env) is PettingZooLoop
    assert {name: len(group.agents) for name, group in env.groups.items()} == groups
    assert sum(int(turn.acting[1].sum()) for turn in env.reset(0).turns.values()) == acting
    assert forms_of(EnvConfig(id=env_id)) == ("loop",)
    env.close()


def test_kwargs_reach_the_game() -> None:
    assert len(made("mpe2/simple_spread_v3", kwargs={"N": 5}).groups["agent"].agents) == 5
    text = refused("mpe2/simple_spread_v3", kwargs={"agnets": 5})
    assert text.startswith("env.kwargs = {'agnets': 5}")
    assert "agnets" in text.partition(": TypeError")[2]


def test_a_file_may_hold_a_game(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import mpe2.simple_v3\ndef game(length): return mpe2.simple_v3.parallel_env(max_cycles=length)\n")
    env = made(f"{file}:game", kwargs={"length": 2})
    env.reset(0)
    for truncated in (False, True):
        assert env.step({"agent": np.zeros((2, 1), np.int64)}).turns["agent"].truncated.all() == truncated


class Idle:
    """Wraps a game in nothing."""

    def __new__(cls, env: Any) -> Any:
        assert isinstance(env, AECEnv | ParallelEnv)
        env.idle = True
        return env


def test_wrappers_go_around_games_too() -> None:
    env = made("zoo_worlds:make_duel", wrappers=[f"{__file__}:Idle"])
    assert isinstance(env, PettingZooLoop)
    assert all(copy.env.idle for copy in env._copies)


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("mpe2/simple_sprad_v3", ["is not a game of mpe2", "did you mean 'mpe2/simple_spread_v3'?"]),
        ("mpe2/simple_spread_v2", ["did you mean 'mpe2/simple_spread_v3'?"]),
        ("mpe/simple_spread_v3", ["not known to PettingZoo", "did you mean 'mpe2/simple_spread_v3'?"]),
        ("simple_spread_v3", ["did you mean 'mpe2/simple_spread_v3'?"]),
        ("classic/tictacto_v3", ["did you mean 'classic/tictactoe_v3'?"]),
        ("butterfly/pistonball_v5", ["did you mean 'butterfly/pistonball_v6'?"]),
        ("pettingzoo/sisl/pursuit_v4", ["did you mean 'sisl/pursuit_v5'?"]),
        ("sisl", ["is not a game of pettingzoo.sisl", "sisl/pursuit_v5"]),
    ],
)
def test_a_wrong_id_is_explained(env_id: str, words: list[str]) -> None:
    text = refused(env_id)
    assert text.startswith(f"env.id = '{env_id}'")
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("env_id", "package", "extra"),
    [
        ("mpe2/simple_spread_v3", "mpe2", "mpe"),
        ("classic/leduc_holdem_v4", "rlcard", "classic"),
        ("butterfly/pistonball_v6", "pymunk", "butterfly"),
        ("sisl/multiwalker_v9", "Box2D", "sisl"),
    ],
)
def test_a_missing_package_names_the_extra(env_id: str, package: str, extra: str) -> None:
    """In a process of its own: games that are imported stay imported."""
    text = say(
        f"import sys; sys.modules['{package}'] = None\n"
        "from shoal.api.experiment import EnvConfig; from shoal.envs import make_env\n"
        f"try: make_env(EnvConfig(id='{env_id}'), 1)\nexcept Exception as error: print(type(error).__name__, error)"
    )
    assert text.startswith(f"InputError env.id = '{env_id}' needs a package that is not installed")
    assert f'pip install "shoal[{extra}]"' in text


def test_without_pettingzoo_the_rest_works() -> None:
    text = say(
        "import sys; sys.modules['pettingzoo'] = sys.modules['mpe2'] = None\n"
        "from shoal.api.experiment import EnvConfig; from shoal.envs import make_env\n"
        "make_env(EnvConfig(id='CartPole-v1'), 1); make_env(EnvConfig(id='Acrobot-v1'), 1)\n"
        "for name in ('classic/tictactoe_v3', 'simple_spread_v3'):\n"
        "    try: make_env(EnvConfig(id=name), 1)\n    except Exception as error: print(error)"
    )
    assert text.splitlines() == [
        "env.id = 'classic/tictactoe_v3' needs a package that is not installed: pip install \"shoal[classic]\"",
        "env.id = 'simple_spread_v3' is not known to PettingZoo; install its games, as in pip install \"shoal[mpe]\"",
    ]


def test_other_worlds_never_import_pettingzoo(tmp_path: Path) -> None:
    text = say(
        "import sys; from shoal.cli import main\n"
        "sys.argv = 'shoal train cartpole --trial one stop.updates=1'.split()\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "print([name for name in sys.modules if name.startswith(('pettingzoo.', 'pygame'))])",
        tmp_path,
    )
    assert text.splitlines()[-1] == "[]"


def say(code: str, folder: Path = Path(__file__).parents[2]) -> str:
    """What a new Python prints."""
    words = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ---------------------------------------------------------------- the game's return


@pytest.mark.parametrize("env_id", [*PARTICLES, "mpe2.simple_spread_v3:env", "butterfly/pistonball_v6", *BOARDS])
def test_a_shared_reward_is_counted_once(env_id: str) -> None:
    """By what is earned: where agents earn the same, or a mix with it, the game's return is their mean."""
    shared = re.search("spread|reference|listener|formation|line|piston", env_id)
    kwargs = PISTONS if "piston" in env_id else {}
    assert made(env_id, 1, kwargs=kwargs).game_return == ("mean" if shared else "sum")


def test_a_game_of_ones_own_says_how_it_counts() -> None:
    assert made("zoo_worlds:make_together").game_return == "sum"
    assert made("zoo_worlds:make_together", game_return="mean").game_return == "mean"
    assert made("mpe2/simple_spread_v3", game_return="sum").game_return == "sum"


# ---------------------------------------------------------------- the contract


def test_all_particle_worlds_are_here() -> None:
    assert _games_of("mpe2") == PARTICLES


@pytest.mark.parametrize(("env_id", "kwargs"), GAMES, ids=[env_id for env_id, _ in GAMES])
def test_a_game_keeps_the_contract(env_id: str, kwargs: dict[str, Any]) -> None:
    checks = check_env(lambda copies: made(env_id, copies, kwargs=kwargs), steps=26)
    assert not [check for check in checks if not check.passed]
    assert len(checks) == 18
    assert "no episode ended" not in str(checks)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The system font:UserWarning")
@pytest.mark.filterwarnings("ignore:.*precision lowered:UserWarning")
@pytest.mark.parametrize("env_id", [*PARTICLES, *BOARDS, *CARDS, *(env_id for env_id, _ in BODIES)])
def test_check_env_passes_every_game(env_id: str) -> None:
    """All of `shoal check-env`, images included."""
    kwargs = PISTONS if "piston" in env_id else {}
    assert not [check for check in main_check(EnvConfig(id=env_id, kwargs=kwargs)) if not check.passed]


def test_pistons_see_what_moves() -> None:
    """The game itself draws nothing unless it is rendered."""
    env = made("butterfly/pistonball_v6", 1, kwargs={"n_pistons": 3, "continuous": False})
    seen = env.reset(0).turns["piston"].observation.astype(int)
    later = env.step({"piston": np.zeros((1, 3), np.int64)}).turns["piston"].observation
    assert (np.abs(later - seen).max(axis=(2, 3, 4)) > 100).any()


def test_random_play_within_the_masks_makes_no_illegal_move() -> None:
    """The game punishes an illegal move with -1 for its player and 0 for the other, and ends."""
    env = made("classic/connect_four_v3", 5)
    sampler = ActionSampler(env.groups, 5, 0)
    step, results = env.reset(0), []
    while len(results) < 50:
        step = env.step(sampler.sample(step))
        results += [tuple(episode.returns["player"]) for episode in step.episodes]
        assert all(episode.length >= 7 for episode in step.episodes)
    assert set(results) <= {(1.0, -1.0), (-1.0, 1.0), (0.0, 0.0)}
    assert len(set(results)) > 1


def test_an_illegal_move_would_be_seen() -> None:
    env = made("classic/connect_four_v3", 1)
    env.reset(0)
    for _ in range(7):
        step = env.step({"player": np.zeros((1, 2), np.int64)})
    assert [tuple(episode.returns["player"]) for episode in step.episodes] == [(-1.0, 0.0)]
