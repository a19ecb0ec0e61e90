"""Images in, an mp4 out: H.264, which every browser plays, with lines of text below each image.

Nothing here needs a screen. The packages are those of the extra `video`, imported when the first video begins.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import chain, repeat
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from shoal.base.errors import InputError
from shoal.base.files import plain_file

Array = np.ndarray

LEAST_SIDE = 240
"""Smaller images are enlarged, by a whole number, until their shorter side has so many pixels: text needs them."""
PIXELS = "yuv420p"
"""How the encoder wants images. One thread converts them, and one encodes: so equal images give equal files."""
OPTIONS = {"preset": "veryfast", "crf": "22", "x264-params": "mbtree=0"}
"""Of the encoder: small files at little cost. Its macroblock tree reads memory that nobody has written: files would differ."""
CONTAINER = {"movflags": "+faststart"}
"""A player may begin before it has read the file to the end."""


class Video:
    """A video that is being written: images are encoded as they come, and the file is there, whole, after `close`.

    With `with`, an error within leaves no file behind.
    """

    def __init__(self, path: Path, *, fps: float) -> None:
        self._av = _library()
        self.path, self.frames = path, 0
        self._rate = Fraction(fps).limit_denominator(1000)
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._container: Any = None
        self._stream: Any = None
        self._shape: tuple[int, ...] = ()
        self._lines = 0

    def add(self, image: Array, caption: str = "") -> None:
        """The next image, bytes `[height, width, 3]` of red, green and blue; all have the size and the lines of the first."""
        if self._container is None:
            self._lines = len(caption.splitlines())
        frame = with_caption(enlarged(image), caption, self._lines)
        if self._container is None:
            self._open(frame.shape)
        if frame.shape != self._shape:
            raise ValueError(f"the image has shape {frame.shape} and those before had {self._shape}")
        self._write(self._av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(format=PIXELS, threads=1))
        self.frames += 1

    def close(self) -> None:
        """Finish the file. Without an image there is none."""
        if self._container is None:
            return
        self._write(None)
        self._container.close()
        self._container = None
        os.replace(self._temporary, self.path)

    def discard(self) -> None:
        """Leave no file."""
        if self._container is not None:
            self._container.close()
            self._container = None
        self._temporary.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _open(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        os.close(plain_file(self._temporary, os.O_WRONLY | os.O_CREAT))  # for its owner alone
        self._container = self._av.open(str(self._temporary), "w", format="mp4", options=CONTAINER)
        self._stream = self._container.add_stream("libx264", rate=self._rate, options=OPTIONS)
        self._stream.height, self._stream.width, self._stream.pix_fmt = shape[0], shape[1], PIXELS
        self._stream.codec_context.thread_count = 1  # training keeps its cores

    def _write(self, frame: Any) -> None:
        for packet in self._stream.encode(frame):
            self._container.mux(packet)


def write_video(path: Path, frames: Iterable[Array], captions: Iterable[str] = (), *, fps: float) -> int:
    """Write all `frames` `[height, width, 3]` to an mp4, each with its caption if there is one; how many there were."""
    with Video(path, fps=fps) as video:
        for frame, caption in zip(frames, chain(captions, repeat(""))):  # noqa: B905 (captions never end)
            video.add(frame, caption)
    return video.frames


def enlarged(image: Array) -> Array:
    """Large enough to write on, and of even sides, which the encoder asks for."""
    image = np.asarray(image)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ValueError(f"an image has bytes [height, width, 3], not {image.dtype} {list(image.shape)}")
    times = -(-LEAST_SIDE // min(image.shape[:2]))
    if times > 1:
        image = image.repeat(times, 0).repeat(times, 1)
    height, width = image.shape[:2]
    return np.pad(image, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


def with_caption(image: Array, caption: str, lines: int = 1) -> Array:
    """The image, and white text on black below it, where it covers nothing; there is room for so many `lines`."""
    if not lines:
        return np.ascontiguousarray(image)
    from PIL import Image, ImageDraw

    size = max(12, min(image.shape[:2]) // 18)
    height, width = image.shape[:2]
    drawn = Image.new("RGB", (width, height + 2 * round(0.8 * size * lines)))  # of even height: see `enlarged`
    drawn.paste(Image.fromarray(image))
    draw = ImageDraw.Draw(drawn)
    for i, line in enumerate(caption.splitlines()[:lines]):
        room = (width - size) / max(1.0, draw.textlength(line, font=_font(size)))
        font = _font(max(8, int(size * min(1.0, room))))
        draw.text((size // 2, height + (1.6 * i + 1.2) * size), line, font=font, anchor="ls", fill=(255, 255, 255))
    return np.asarray(drawn)


@lru_cache(maxsize=8)
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def require_video() -> None:
    """Fail with the remedy where the extra is missing."""
    _library()


def _library() -> Any:
    try:
        import av
        import PIL  # noqa: F401 (captions need it)
    except ModuleNotFoundError as error:
        raise InputError(f'videos need {error.name}, which is not installed: pip install "shoal[video]"') from None
    return av
