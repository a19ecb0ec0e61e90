"""Short videos of versions that are evaluated: images of one episode in, now and then an mp4 and a small animation out."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from shoal.api.env import Env
from shoal.base.errors import InputError
from shoal.base.files import make_folder, write_atomic
from shoal.envs.curriculum import StagedEnv
from shoal.evaluation.video import Video, require_video

FPS = 30
FRAMES = 300
"""A clip is cut off after so many."""
STRIDE, SIDE = 3, 200
"""The animation has every third image, at most so many pixels wide and high."""


def check_drawn(env: Env, name: str) -> None:
    """An environment that draws nothing is found before anything is trained; so are packages that are not there."""
    require_video()
    env.reset(0)
    if env.render(0) is None:
        raise InputError(f"evaluation.video: '{name}' draws no images of itself; remove the key")


class Clip:
    """One film: `<version>.mp4`, and `<version>.gif` for whoever cannot show videos."""

    def __init__(self, folder: Path, env: Env, version: int) -> None:
        make_folder(folder)
        self._env, self._version = env, version
        self._video = Video(folder / f"{version:010d}.mp4", fps=FPS)
        self._small: list[np.ndarray] = []
        self.shoot()

    @property
    def full(self) -> bool:
        """There are enough images."""
        return self._video.frames >= FRAMES

    def shoot(self) -> None:
        """The next image, of the first copy."""
        image = self._env.render(0)
        if image is None:
            return
        if self._video.frames % STRIDE == 0:
            step = math.ceil(max(image.shape[:2]) / SIDE)
            self._small.append(np.ascontiguousarray(image[::step, ::step]))
        self._video.add(image, f"version {self._version:,}  step {self._video.frames:,}")

    def end(self) -> str:
        """Finish both files; the name of the video."""
        from PIL import Image

        self._video.close()
        first, *others = [Image.fromarray(image) for image in self._small]
        gif = io.BytesIO()
        first.save(gif, "gif", save_all=True, append_images=others, duration=1000 * STRIDE // FPS, loop=0)
        write_atomic(self._video.path.with_suffix(".gif"), gif.getvalue())
        return self._video.path.name

    def drop(self) -> None:
        """Keep no half of one."""
        self._video.discard()


@dataclass
class Clips:
    """An environment to film in, at most once in `every` seconds: drawing the copies that are evaluated would slow all of them."""

    folder: Path
    every: float
    env: StagedEnv
    """One copy, which draws itself."""
    clock: Callable[[], float] = time.monotonic
    _last: float = field(default=-math.inf, init=False)

    @property
    def due(self) -> bool:
        """It is time for the next."""
        return self.clock() - self._last >= self.every

    def begin(self, version: int) -> Clip:
        """The environment is reset: film what follows."""
        self._last = self.clock()
        return Clip(self.folder, self.env, version)
