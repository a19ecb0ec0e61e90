"""Films of versions that are evaluated: when, how long, and what is left of one that is broken off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.api.env import Env
from shoal.api.experiment import EnvConfig, Experiment
from shoal.base.errors import InputError
from shoal.envs import make_env
from shoal.evaluation import clips
from shoal.evaluation.clips import Clip, Clips, check_drawn

av = pytest.importorskip("av", reason="an extra: video")


class Flickering(Env):
    """Draws a new shade at every look."""

    def __init__(self) -> None:
        self.looks = 0

    def reset(self, seed: int) -> Any: ...
    def send(self, actions: Any) -> None: ...
    def recv(self, timeout: float) -> Any: ...

    def render(self, row: int) -> np.ndarray:
        self.looks += 1
        return np.full((120, 300, 3), (40 * self.looks) % 256, np.uint8)


def frames(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_both_files_show_what_was_filmed(tmp_path: Path) -> None:
    from PIL import Image

    clip = Clip(tmp_path / "videos", Flickering(), 7)
    for _ in range(6):
        clip.shoot()
    assert clip.end() == "0000000007.mp4"
    shown = frames(tmp_path / "videos/0000000007.mp4")
    assert [int(frame[10, 10, 0]) for frame in shown] == pytest.approx([40, 80, 120, 160, 200, 240, 24], abs=6)
    with Image.open(tmp_path / "videos/0000000007.gif") as gif:
        assert (gif.n_frames, gif.size) == (3, (150, 60))  # type: ignore[attr-defined]


def test_a_film_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clips, "FRAMES", 5)
    clip = Clip(tmp_path, Flickering(), 7)
    looks = 1
    while not clip.full:
        clip.shoot()
        looks += 1
    assert looks == 5


def test_half_a_film_leaves_nothing(tmp_path: Path) -> None:
    clip = Clip(tmp_path, Flickering(), 7)
    clip.drop()
    assert list(tmp_path.iterdir()) == []


def test_films_keep_their_distance(tmp_path: Path) -> None:
    now = 0.0
    films = Clips(tmp_path, 10.0, Flickering(), lambda: now)  # type: ignore[arg-type]
    assert films.due
    films.begin(1).drop()
    now = 9.9
    assert not films.due
    now = 10.0
    assert films.due


def test_a_world_that_draws_nothing_is_found_at_once() -> None:
    env = make_env(EnvConfig(id="shoal/chain"), 1, render=True)
    with pytest.raises(InputError, match=r"evaluation\.video: 'shoal/chain' draws no images of itself; remove the key"):
        check_drawn(env, "shoal/chain")


@pytest.mark.parametrize("on", ["inline", "local"])
def test_a_run_films_what_it_judged(tmp_path: Path, on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tree = {
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "algorithm": {"name": "ppo", "unroll": 32, "minibatch": 64},
        "model": {"name": "mlp", "hidden": [16]},
        "stop": {"updates": 2},
        "name": "filmed",
    }
    told = {}
    for video in (None, "1h"):
        settings = {**tree, "evaluation": {"every": "1h", "episodes": 3, "video": video}}
        outcome = shoal.train(Experiment.parse(settings), trial=str(video), root=tmp_path, on=on, quiet=True)
        lines = [json.loads(line) for line in (outcome.folder / "events.jsonl").read_text().splitlines()]
        (told[video],) = [line for line in lines if line["kind"] == "evaluation"]
    assert told[None]["returns"] == told["1h"]["returns"], "the camera changes nothing"
    assert (told[None]["video"], told["1h"]["video"]) == (None, "0000000002.mp4")
    assert len(frames(outcome.folder / "videos/0000000002.mp4")) > 5
    assert sorted(path.name for path in (outcome.folder / "videos").iterdir()) == ["0000000002.gif", "0000000002.mp4"]
    board = EventAccumulator(str(outcome.folder / "tensorboard"))
    board.Reload()
    (picture,) = board.Images("eval/video")
    assert picture.step == told["1h"]["steps"]
    assert picture.encoded_image_string == (outcome.folder / "videos/0000000002.gif").read_bytes()
    assert (picture.width, picture.height) == (200, 134)
