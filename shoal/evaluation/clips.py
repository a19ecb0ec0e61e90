"""Short videos of versions that are judged: pictures of one episode in, now and then an mp4 and a small animation out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from shoal.api.env import Env
from shoal.base.errors import InputError
from shoal.evaluation.evaluator import Judge
from shoal.evaluation.video import Video, require_video

FPS = 30
FRAMES = 300
"""A clip is cut off after so many."""
STRIDE, SIDE = 3, 200
"""The animation has every third picture, at most so many pixels wide and high."""


def check_drawn(env: Env, name: str) -> None:
    """A world that draws nothing is found before anything is trained; so are packages that are not there."""
    require_video()
    env.reset(0)
    if env.render(0) is None:
        raise InputError(f"evaluation.video: '{name}' draws no pictures of itself; leave it out")


class Clip:
    """One film: `<version>.mp4`, and `<version>.gif` for whoever cannot show videos."""

    def __init__(self, folder: Path, env: Env, version: int) -> None:
        folder.mkdir(exist_ok=True)
        self._env, self._version = env, version
        self._video = Video(folder / f"{version:010d}.mp4", fps=FPS)
        self._small: list[np.ndarray] = []
        self.shoot()

    @property
    def full(self) -> bool:
        """There are enough pictures."""
        return self._video.frames >= FRAMES

    def shoot(self) -> None:
        """The next picture, of the first copy."""
        picture = self._env.render(0)
        if picture is None:
            return
        if self._video.frames % STRIDE == 0:
            step = math.ceil(max(picture.shape[:2]) / SIDE)
            self._small.append(np.ascontiguousarray(picture[::step, ::step]))
        self._video.add(picture, f"version {self._version:,}  step {self._video.frames:,}")

    def end(self) -> str:
        """Finish both files; the name of the video."""
        from PIL import Image

        self._video.close()
        first, *others = [Image.fromarray(picture) for picture in self._small]
        gif = self._video.path.with_suffix(".gif")
        first.save(gif, save_all=True, append_images=others, duration=1000 * STRIDE // FPS, loop=0)
        return self._video.path.name

    def drop(self) -> None:
        """Leave no half of one."""
        self._video.discard()


@dataclass
class Clips:
    """A world to film in, at most once in `every` seconds: to draw the copies that are judged would slow them all down."""

    folder: Path
    every: float
    env: Env
    """One copy, which draws itself."""
    judge: Judge
    clock: Callable[[], float] = time.monotonic
    _last: float = field(default=-math.inf, init=False)

    @property
    def due(self) -> bool:
        """It is time for the next."""
        return self.clock() - self._last >= self.every

    def begin(self, version: int) -> Clip:
        """The world is reset: film what follows."""
        self._last = self.clock()
        return Clip(self.folder, self.env, version)
