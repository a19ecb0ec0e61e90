"""Players that crash, hang, leak, print, lie: what becomes of the run, and what the error says."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outside_games import FOLDER, executable

from shoal.api.env import Env
from shoal.api.experiment import EnvConfig
from shoal.base.descendants import below, lives
from shoal.base.errors import InputError, ShoalError
from shoal.envs import make_env

pytest.importorskip("grpc")
Make = Callable[..., Env]
NONE = {"failures": 0}
NOTHING = {"Guess": np.zeros((1, 1), np.int64)}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    file = executable(tmp_path, "unity_player.py", "Game.x86_64")
    opened: list[Env] = []

    def build(args: str = "", **kwargs: Any) -> Env:
        opened.append(make_env(EnvConfig(id=f"unity:{file}", kwargs={"args": args.split(), "look": 1, **kwargs}), 1))
        return opened[-1]

    yield build
    for env in opened:
        env.close()


def play(env: Env, steps: int, timeout: float = 10.0) -> list[tuple[bool, bool, list[dict[str, float]]]]:
    """Truncated, acting and the metrics of episodes, step by step."""
    env.reset(0)
    told = []
    for _ in range(steps):
        step = env.step(NOTHING, timeout)
        turn = step.turns["Guess"]
        told.append((turn.truncated.item(), turn.acting.item(), [episode.metrics for episode in step.episodes]))
    return told


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("crash", "the game ended with exit code 3; its log ends:.*Segmentation fault in Physics"),
        ("hang", "the player did not answer in 1.6 s; its log ends: .*Scripted player hang"),
        ("garbage", "sent what is no message of ML-Agents"),
        ("closed", r"closed the connection \(status 400\)"),
        ("nan", "observation 'vector' holds a number that is not finite"),
    ],
)
def test_a_fault_is_one_line_with_the_end_of_the_log(make: Make, fault: str, said: str) -> None:
    env = make(f"--fault {fault} --at 6", restart=NONE)
    with pytest.raises(ShoalError, match=said) as error:
        play(env, 10, timeout=2.0 if fault == "hang" else 20.0)
    assert "\n" not in str(error.value)
    assert "Game.x86_64, build 0" in str(error.value)


@pytest.mark.parametrize("fault", ["crash", "hang", "garbage"])
def test_a_player_that_failed_is_started_anew(make: Make, tmp_path: Path, fault: str) -> None:
    env = make(f"--fault {fault} --at 6 --once {tmp_path}/happened")
    told = play(env, 12, timeout=4.0 if fault == "hang" else 20.0)
    cuts = [i for i, (truncated, _, _) in enumerate(told) if truncated]
    assert len(cuts) == 1, "what was open is cut off"
    assert all(acting for _, acting, _ in told), "the next episode begins in the same step"
    assert told[cuts[0]][2][0]["restarts"] == 1.0


def test_failures_again_and_again_end_the_run(make: Make) -> None:
    env = make("--fault crash --at 6", restart={"failures": 2})
    with pytest.raises(ShoalError, match="Segmentation fault"):
        play(env, 100)


def test_a_build_is_started_anew_after_so_many_steps(make: Make) -> None:
    told = play(make("--length 1000", restart={"steps": 4}), 12)
    assert [i for i, (truncated, _, _) in enumerate(told) if truncated] == [3, 7, 11]


def test_a_build_that_leaks_is_started_anew(make: Make) -> None:
    env = make("--length 1000 --fault leak --at 1", restart={"memory": 1_000_000_000})
    told = play(env, 64)
    assert sum(truncated for truncated, _, _ in told) == 1
    assert env.footprint().memory < 1_000_000_000  # type: ignore[union-attr]


def test_an_agent_that_just_began_is_cut_later(make: Make) -> None:
    """Its predecessor's end and its own do not fit into one step."""
    told = play(make("--length 4", restart={"steps": 4}), 12)
    assert sum(len(episodes) for _, _, episodes in told) == 4
    assert [i for i, (truncated, _, _) in enumerate(told) if truncated] == [4, 9]


def test_logs_are_kept_within_their_limit(make: Make, tmp_path: Path) -> None:
    env = make("--fault print --at 2", log_folder=str(tmp_path / "logs"), log_limit=100_000)
    play(env, 10)
    env.close()
    logs = sorted((tmp_path / "logs").iterdir())
    assert [log.name for log in logs] == [f"Game-0-{os.getpid()}-1.log", f"Game-0-{os.getpid()}-1.log.old"]
    assert sum(log.stat().st_size for log in logs) <= 100_000


@pytest.mark.slow
def test_a_player_that_prints_100_megabytes(make: Make, tmp_path: Path) -> None:
    """Neither the disk nor the memory of its actor fills up, and play goes on."""
    env = make("--fault print --at 2 --length 1000", log_folder=str(tmp_path / "logs"), log_limit=1_000_000)
    before = _memory()
    assert len(play(env, 105)) == 105
    assert _memory() - before < 20_000_000
    env.close()
    assert sum(log.stat().st_size for log in (tmp_path / "logs").iterdir()) <= 1_000_000


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(("version", "fine"), [("1.0.0", True), ("2.0.0", False), ("0.9.0", False)])
def test_versions(make: Make, version: str, fine: bool) -> None:
    if fine:
        assert make(f"--version {version}").num_envs == 1
        return
    with pytest.raises(ShoalError, match=f"speaks version {version} of the protocol and Shoal 1.5.0"):
        make(f"--version {version}")


def test_a_player_that_never_calls(make: Make) -> None:
    with pytest.raises(
        ShoalError,
        match="did not call within env.kwargs.start_timeout = 2 s; its log ends: started with .*--fault mute",
    ):
        make("--fault mute", start_timeout=2.0)


def test_nothing_listens_beyond_loopback(make: Make) -> None:
    make()
    inodes = {
        os.readlink(link)
        for link in Path("/proc/self/fd").iterdir()
        if stat.S_ISSOCK(_mode(link))
    }  # fmt: skip
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                listening.append(fields[1].partition(":")[0])
    assert len(listening) == 1
    assert listening[0] in ("0100007F", "0000000000000000FFFF00000100007F"), "127.0.0.1, as either family writes it"


def _mode(link: Path) -> int:
    try:
        return link.stat().st_mode
    except OSError:
        return 0


def test_a_proxy_does_not_get_between(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "example.org")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert len(play(make(), 5)) == 5


def test_players_end_with_their_environment(make: Make) -> None:
    before = below(os.getpid())
    env = make()
    players = below(os.getpid()) - before
    assert players
    env.close()
    assert not any(lives(player) for player in players)


def test_a_port_that_is_taken(make: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="env.kwargs.port = .* is in use"):
            make(port=taken.getsockname()[1])


def test_the_editor_is_waited_for() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    player = subprocess.Popen(
        [sys.executable, str(FOLDER / "unity_player.py"), "--mlagents-port", str(port)], stdout=subprocess.DEVNULL
    )
    try:
        env = make_env(EnvConfig(id="unity:editor", kwargs={"port": port}), 1)
        assert len(play(env, 6)) == 6
        env.close()
        assert player.wait(10) == 0, "it is told to quit"
    finally:
        player.kill()
        player.wait()


def test_nobody_presses_play() -> None:
    with pytest.raises(ShoalError, match="unity:editor: the player did not call within"):
        make_env(EnvConfig(id="unity:editor", kwargs={"start_timeout": 0.3, "port": _free_port()}), 1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ---------------------------------------------------------------- screens: stand-ins for Xvfb and glxinfo, which CI has not


@pytest.fixture
def screens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A screen number 77, and an OpenGL of the given version."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def put(version: str) -> None:
        (folder / "Xvfb").write_text('#!/bin/bash\necho 77 >&$2\neval "exec $2>&-"\nexec sleep 600\n')
        (folder / "glxinfo").write_text(f'#!/bin/sh\necho "OpenGL core profile version string: {version} (Mesa)"\n')
        for file in folder.iterdir():
            file.chmod(0o755)

    return put


def test_a_virtual_screen(make: Make, screens: Callable[[str], None], tmp_path: Path) -> None:
    screens("4.5")
    before = below(os.getpid())
    env = make(no_graphics=False, display="xvfb", log_folder=str(tmp_path / "logs"))
    started = below(os.getpid()) - before
    env.close()
    assert "Scripted player" in (log := (tmp_path / "logs" / f"Game-0-{os.getpid()}-1.log").read_text())
    assert log.splitlines()[1].endswith(":77")
    deadline = time.monotonic() + 5
    while any(lives(process) for process in started) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(lives(process) for process in started)


def test_an_opengl_that_is_too_old(make: Make, screens: Callable[[str], None]) -> None:
    screens("2.1")
    with pytest.raises(InputError, match="OpenGL of screen :77 is 2.1, and Unity needs 3.2"):
        make(no_graphics=False, display="xvfb")


def test_no_screen_to_inherit(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(InputError, match="there is no DISPLAY here: set display to xvfb"):
        make(no_graphics=False, display="inherit")


def test_no_xvfb(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="Xvfb is not installed here"):
        make(no_graphics=False, display="xvfb")
