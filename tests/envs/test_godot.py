"""Godot games as environments: against a scripted game, which is a process and speaks the real protocol over TCP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from outside_games import FOLDER, executable

import shoal
from shoal.api.env import Env, Step
from shoal.api.experiment import EnvConfig, Experiment
from shoal.base.descendants import below, lives
from shoal.base.errors import InputError, ShoalError
from shoal.envs import make_env
from shoal.testing.check import require
from shoal.testing.env import check_env

Make = Callable[..., Env]
NONE = {"failures": 0}
ALL = "shared_policy"


@pytest.fixture
def game(tmp_path: Path) -> Path:
    return executable(tmp_path, "godot_player.py", "Game.x86_64")


@pytest.fixture
def make(game: Path) -> Iterator[Make]:
    opened: list[Env] = []

    def build(args: str = "", copies: int = 1, **kwargs: Any) -> Env:
        opened.append(make_env(EnvConfig(id=f"godot:{game}", kwargs={"args": args.split(), **kwargs}), copies))
        return opened[-1]

    yield build
    for env in opened:
        env.close()


def named(step: Step, group: str) -> np.ndarray:
    seen = step.turns[group].observation
    return (seen["obs"] if isinstance(seen, dict) else seen).argmax(-1)


def play(
    env: Env, steps: int, act: Callable[[np.ndarray], np.ndarray] = lambda cue: cue, timeout: float = 10.0
) -> Step:
    """Perfect play; the last step."""
    step = env.reset(0)
    for _ in range(steps):
        step = env.step({group: act(named(step, group)) for group in env.groups}, timeout)
    return step


def test_agents_of_one_policy_are_copies(make: Make) -> None:
    env = make("--agents 4", copies=6)
    assert env.groups[ALL].agents == ("shared_policy_0",)
    assert env.groups[ALL].action_space == Discrete(3)
    end = play(env, 5)
    assert [episode.returns[ALL].item() for episode in end.episodes] == [5.0] * 6
    assert end.episodes[0].metrics == {"steps": 5.0}
    assert end.turns[ALL].terminated.all()
    assert end.turns[ALL].acting.all()
    assert env.footprint().games == 2  # type: ignore[union-attr]


def test_policies_are_groups(make: Make) -> None:
    env = make("--agents 4 --policies red blue", areas=2, copies=2)
    assert {name: group.agents for name, group in env.groups.items()} == {"red": ("red_0",), "blue": ("blue_0",)}
    assert play(env, 5).episodes[1].returns == {"red": np.array([5.0]), "blue": np.array([5.0])}


def test_games_that_describe_one_agent_for_all(make: Make) -> None:
    assert len(play(make("--agents 2 --old", copies=2), 5).episodes) == 2


def test_images_come_as_bytes(make: Make) -> None:
    env = make("--images")
    space = env.groups[ALL].observation_space
    assert isinstance(space, Dict)
    assert space["camera_2d"] == Box(0, 255, (2, 3, 2), np.uint8)
    seen = env.reset(0).turns[ALL].observation
    assert (seen["camera_2d"][..., 0] == seen["obs"].argmax(-1)).all()
    assert (seen["camera_2d"][..., 1] == 200).all()


@pytest.mark.parametrize(
    ("kind", "space", "act"),
    [
        (
            "continuous",
            Box(-1.0, 1.0, (2,), np.float32),
            lambda cue: np.stack([0.0 * cue, cue - 1.0], -1).astype(np.float32),
        ),
        ("mixed", MultiDiscrete([5, 5, 3]), lambda cue: np.stack([np.full_like(cue, 4), 0 * cue, cue], -1)),
    ],
)
def test_all_kinds_of_actions(make: Make, kind: str, space: Any, act: Callable[[np.ndarray], np.ndarray]) -> None:
    env = make(f"--actions {kind}", bins=5)
    assert env.groups[ALL].action_space == space
    assert play(env, 5, act).episodes[0].returns[ALL].item() == 5.0


def test_done_may_mean_that_time_was_up(make: Make) -> None:
    end = play(make(done="truncated"), 5).turns[ALL]
    assert end.truncated.all()
    assert not end.terminated.any()


def test_the_contract_is_kept(make: Make) -> None:
    require(check_env(lambda copies: make("--agents 3", copies, reseed=True), steps=8))


def test_settings_become_arguments(make: Make, tmp_path: Path) -> None:
    make(speedup=8.0, action_repeat=4, framerate=2000, log_folder=str(tmp_path / "logs")).close()
    log = (tmp_path / "logs" / f"Game-0-{os.getpid()}-1.log").read_text()
    assert "'fixed_fps': '2000', 'speedup': '8', 'action_repeat': '4'" in log
    assert "'headless': True" in log


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("crash", "the game ended with exit code 4; its log ends:.*stack overflow"),
        ("hang", "the game did not answer in 1.6 s"),
        ("garbage", "sent what is no message of Godot RL Agents"),
        ("closed", "the game closed the connection"),
        ("short", "a message makes no sense: IndexError"),
    ],
)
def test_a_fault_is_one_line(make: Make, fault: str, said: str) -> None:
    env = make(f"--fault {fault} --at 3", restart=NONE)
    with pytest.raises(ShoalError, match=said) as error:
        play(env, 5, timeout=2.0 if fault == "hang" else 20.0)
    assert "\n" not in str(error.value)


def test_a_game_that_crashed_is_started_anew(make: Make, tmp_path: Path) -> None:
    env = make(f"--fault crash --at 3 --once {tmp_path}/happened")
    end = play(env, 3)
    assert end.turns[ALL].truncated.all()
    assert end.turns[ALL].acting.all()
    assert end.episodes[0].metrics["restarts"] == 1.0


def test_a_game_that_never_calls(make: Make) -> None:
    with pytest.raises(ShoalError, match="did not call within env.kwargs.start_timeout = 1 s"):
        make("--fault mute", start_timeout=1.0)


def test_a_game_that_says_nonsense_of_its_agents(make: Make) -> None:
    with pytest.raises(ShoalError, match="what the game says of its agents makes no sense: 'n_agents'"):
        make("--fault nonsense")


def test_areas_that_do_not_divide(make: Make) -> None:
    with pytest.raises(InputError, match="areas = 2 does not divide the 3 agents"):
        make("--agents 3", areas=2)


def test_games_end_with_their_environment(make: Make) -> None:
    before = below(os.getpid())
    env = make()
    started = below(os.getpid()) - before
    assert started
    env.close()
    assert not any(lives(process) for process in started)


def test_the_editor_is_waited_for() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", RETRY, str(FOLDER), str(port)]
    player = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        env = make_env(EnvConfig(id="godot:editor", kwargs={"port": port}), 1)
        assert len(play(env, 5).episodes) == 1
        env.close()
        assert player.wait(10) == 0, "it is told to close"
    finally:
        player.kill()
        player.wait()


RETRY = """
import sys, time
sys.path.insert(0, sys.argv[1])
port = sys.argv[2]
import godot_player
sys.argv[1:] = [f"--port={port}"]
for _ in range(2000):
    try:
        godot_player.main()
        break
    except ConnectionRefusedError:
        time.sleep(0.005)
"""


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["inline", "local"])
def test_ppo_reaches_the_optimum(tmp_path: Path, game: Path, launcher: str) -> None:
    asked_for = Experiment.parse(
        {
            "env": {"id": f"godot:{game}", "num_envs": 8, "kwargs": {"args": ["--agents", "8"]}},
            "algorithm": {"name": "ppo", "lr": 0.01, "unroll": 20, "minibatch": 80, "epochs": 4},
            "model": {"name": "mlp", "hidden": [32]},
            "placement": {"actors": 1},
            "stop": {"return": 4.8, "steps": 60_000},
        }
    )
    outcome = shoal.train(asked_for, on=launcher, root=tmp_path, quiet=True)
    rows = [json.loads(line) for line in (outcome.folder / "metrics.jsonl").read_text().splitlines()]
    assert max(row.get("rollout/ep_rew_mean", 0.0) for row in rows) > 4.5
    assert outcome.steps < 60_000, "stop.return was reached"
