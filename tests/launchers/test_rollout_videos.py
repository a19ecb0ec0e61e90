"""`shoal rollout --video`: an image for every step, the numbers over it, in environments of every kind; else one line says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from shoal.api.env import Array
from shoal.base.errors import InputError
from shoal.cli import main
from shoal.envs.mpe.particles import Particles
from shoal.evaluation.film import caption
from shoal.evaluation.video import Video
from shoal.runs.rollout import rollout
from tests.launchers.small_runs import trained

ATARI = {"id": "ALE/Pong-v5", "kwargs": {"max_num_frames_per_episode": 200, "noop_max": 1}}
WORLDS: list[tuple[str, dict[str, Any], float]] = [
    ("a batch of gymnasium", {"id": "CartPole-v1"}, 50),
    ("single copies", {"id": "CartPole-v1", "vector": "loop"}, 50),
    ("native particles", {"id": "shoal/spread"}, 10),
    ("native with obstacles", {"id": "shoal/tag"}, 10),
    ("native board", {"id": "shoal/connect-four"}, 2),
    ("PettingZoo", {"id": "mpe2/simple_spread_v3", "kwargs": {"max_cycles": 8}}, 10),
]


def decoded(path: Path) -> tuple[list[Array], float]:
    with av.open(str(path)) as container:
        rate = container.streams.video[0].average_rate
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)], float(rate or 0)


def steps_of(folder: Path) -> list[int]:
    lengths = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            lengths.append(len(next(arrays[name] for name in arrays.files if name.endswith("/reward"))))
    return lengths


@pytest.mark.parametrize(("env", "fps"), [pytest.param(env, fps, id=name) for name, env, fps in WORLDS])
def test_a_picture_for_every_step(env: dict[str, Any], fps: float, tmp_path: Path) -> None:
    run = trained(tmp_path, env)
    _, folder = rollout(run, episodes=2, video=True)
    lengths = steps_of(folder)
    videos = sorted(folder.glob("*.mp4"))
    assert len(videos) == len(lengths) == 2
    for path, length in zip(videos, lengths, strict=True):
        frames, rate = decoded(path)
        assert (len(frames), rate) == (length + max(1, round(fps)), fps), "one for each step, and the last for a second"
        moved = [np.abs(a.astype(int) - b.astype(int)).max() for a, b in zip(frames[:length], frames[1:], strict=False)]
        assert min(moved) > 60, "at least the numbers change"
        corner = frames[0][-18:, :240]
        assert corner.max() > 200
        assert np.median(corner) < 30, "white on black"
        assert min(frames[0].shape[:2]) >= 240
    assert not list(folder.glob(".*"))


def test_atari(tmp_path: Path) -> None:
    run = trained(tmp_path, ATARI, model={"name": "nature"})
    _, folder = rollout(run, episodes=1, video=True)
    frames, rate = decoded(folder / "episode-00000.mp4")
    assert (len(frames), rate) == (steps_of(folder)[0] + 15, 15)
    assert frames[0].shape == (252 + 22, 252, 3)
    with np.load(folder / "episode-00000.npz") as arrays:
        assert (arrays["agent/observation"].dtype, arrays["agent/observation"].shape[1:]) == (np.uint8, (1, 4, 84, 84))


def test_pictures_do_not_change_what_is_played(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "CartPole-v1"})
    _, plain = rollout(run, episodes=2, out=tmp_path / "plain")
    _, drawn = rollout(run, episodes=2, out=tmp_path / "drawn", video=True)
    for name in ("episode-00000.npz", "episode-00001.npz", "episodes.csv"):
        assert (plain / name).read_bytes() == (drawn / name).read_bytes()


def test_the_last_picture_shows_the_return(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("shoal.evaluation.film.caption", lambda *words: said.append(caption(*words)) or said[-1])
    run = trained(tmp_path, {"id": "shoal/spread"})
    scores, folder = rollout(run, episodes=1, video=True)
    with np.load(folder / "episode-00000.npz") as arrays:
        earned = np.concatenate([[0], arrays["agent/reward"].sum(1, dtype=np.float64).cumsum()])
    assert said[:25] == [f"episode 0   step {t}   return {earned[t]:.2f}" for t in range(25)]
    assert said[25:] == [f"episode 0   step 25   return {scores.returns[0]:.2f}"] * 10


def test_players_are_named_in_every_deal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the first image of an episode that begins where another ended."""
    said: dict[str, set[str]] = {}
    monkeypatch.setattr(
        Video, "add", lambda video, _, text: said.setdefault(video.path.stem, set()).add(text.splitlines()[1])
    )
    monkeypatch.setattr("shoal.runs.rollout.MAX_COPIES", 2)
    sides = {"agents": {"player_0": "learner", "player_1": "rival"}, "deal": "shuffled"}
    policies = {"learner": {}, "rival": {"play": "random"}}
    run = trained(tmp_path, {"id": "shoal/connect-four"}, policies=policies, **sides)
    _, folder = rollout(run, episodes=8, video=True)
    for path in folder.glob("*.npz"):
        with np.load(path) as arrays:
            first, second = (("learner", "rival")[number] for number in arrays["player/policy"])
        assert said[path.stem] == {f"player_0: {first}   player_1: {second}"}
    assert len(set.union(*said.values())) == 2, "both deals were played"


def test_a_world_without_pictures_is_one_line(tmp_path: Path) -> None:
    run = trained(tmp_path, {"id": "shoal/chain"})
    with pytest.raises(InputError, match="--video: this environment draws no images: remove --video"):
        rollout(run, episodes=1, video=True, out=tmp_path / "out")
    assert not list((tmp_path / "out").glob("*"))


def test_what_was_cut_short_leaves_no_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained(tmp_path, {"id": "shoal/spread"})
    draw, pictures = Particles.render, []

    def draw_three(self: Particles, row: int) -> Array:
        pictures.append(row)
        if len(pictures) > 3:
            raise KeyboardInterrupt
        return draw(self, row)

    monkeypatch.setattr(Particles, "render", draw_three)
    with pytest.raises(KeyboardInterrupt):
        rollout(run, episodes=1, video=True, out=tmp_path / "out")
    assert not list((tmp_path / "out").glob("*"))
    assert not list((tmp_path / "out").glob(".*"))


# ---------------------------------------------------------------- as typed


def typed(*words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["shoal", "rollout", *words])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_the_command(in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(in_tmp / "runs", {"id": "shoal/spread"})
    options = ["--episodes", "2", "--seed", "5", "--stochastic", "--video", "--checkpoint", "1"]
    assert typed("x", *options, "env.kwargs={max_cycles: 6}", monkeypatch=monkeypatch) == 0
    out = capsys.readouterr().out
    folder = Path(run) / "rollouts" / "1-5-stochastic"
    assert out.startswith("2 stochastic episodes of 6.0 steps, mean return -")
    assert out.splitlines()[1] == "episodes.csv, rollout.json, episode-00000.npz to 00001, an mp4 beside each"
    assert json.loads((folder / "rollout.json").read_text())["seed"] == 5
    assert len(list(folder.glob("*.mp4"))) == 2


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["y"], "there is no run 'y'; "),
        (["x", "--checkpoint", "best-ever"], "'best-ever' is no checkpoint; choose from: latest, 1"),
        (["x", "--checkpoint", "77"], "77"),
        (["x", "--out", "runs/x/file"], "--out = 'runs/x/file': no episodes can be written there"),
        (["x", "env.kwargs={speed: 3}"], "env.kwargs = {'speed': 3} does not suit 'shoal/spread'"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], line: str, in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(in_tmp / "runs", {"id": "shoal/spread"})
    (in_tmp / "runs" / "x" / "file").write_text("")
    assert typed(*words, "--episodes", "1", monkeypatch=monkeypatch) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
