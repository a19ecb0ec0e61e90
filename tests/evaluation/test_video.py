"""Videos decode to the images that went in, with text over them, and a broken one leaves nothing behind."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import av
import numpy as np
import pytest

from shoal.base.errors import InputError
from shoal.evaluation.video import LEAST_SIDE, enlarged, with_caption, write_video

GREY = 90
M_PERTURB = -6
"""As malloc.h has it."""


def decoded(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def moving(count: int, height: int = 256, width: int = 320) -> list[np.ndarray]:
    """A white bar that walks to the right, over grey."""
    frames = np.full((count, height, width, 3), GREY, np.uint8)
    for i, frame in enumerate(frames):
        frame[: height // 2, 16 * i : 16 * i + 16] = 255
    return list(frames)


def test_what_went_in_comes_out(tmp_path: Path) -> None:
    frames = moving(9)
    assert write_video(tmp_path / "a.mp4", frames, fps=12.5) == 9
    seen = decoded(tmp_path / "a.mp4")
    assert len(seen) == 9
    for i, (before, after) in enumerate(zip(frames, seen, strict=True)):
        assert np.abs(before.astype(int) - after.astype(int)).mean() < 4, i
    with av.open(str(tmp_path / "a.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, float(stream.average_rate)) == ("h264", 12.5)
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


@pytest.mark.parametrize("height", [256, 288])
def test_equal_images_give_equal_files(tmp_path: Path, height: int) -> None:
    """Whatever lies in memory that is not written yet: glibc fills it with a byte of ours."""
    libc, files = ctypes.CDLL(None), set()
    try:
        for byte in (1, 38, 75, 112, 149, 186, 223, 255):
            libc.mallopt(M_PERTURB, byte)
            write_video(tmp_path / "a.mp4", moving(5, height), (f"step {i}" for i in range(5)), fps=30)
            files.add((tmp_path / "a.mp4").read_bytes())
    finally:
        libc.mallopt(M_PERTURB, 0)
    assert len(files) == 1


def test_captions_are_below_the_image_and_cover_nothing(tmp_path: Path) -> None:
    frames = [np.full((256, 320, 3), GREY, np.uint8)] * 3
    write_video(tmp_path / "a.mp4", frames, ["return 12.0", "return 13.0"], fps=10)
    first, second, bare = decoded(tmp_path / "a.mp4")
    assert first.shape == bare.shape == (278, 320, 3)
    assert all(np.abs(frame[:254].astype(int) - GREY).max() < 12 for frame in (first, second, bare))
    assert first[260:, :120].max() > 200, "white letters"
    assert np.median(first[260:]) < 30, "on black"
    assert np.abs(first[260:].astype(int) - second[260:].astype(int)).max() > 60, "other letters"
    assert bare[260:].max() < 30, "no caption, no text"


def test_a_long_caption_fits_and_every_line_has_room() -> None:
    image = np.full((256, 256, 3), GREY, np.uint8)
    one, two = with_caption(image, "x"), with_caption(image, "player_0: learner   player_1: rival\nx" * 2, 2)
    assert two.shape[0] - 256 == 2 * (one.shape[0] - 256)
    assert two.shape[0] % 2 == 0
    letters = (two[256:] > 128).any((0, 2)).nonzero()[0]
    assert letters.max() < 256 - 4, "it ends within the image"


def test_small_and_odd_pictures_are_enlarged() -> None:
    small = np.arange(3 * 5 * 3, dtype=np.uint8).reshape(3, 5, 3)
    large = enlarged(small)
    assert large.shape == (LEAST_SIDE, 400, 3)
    np.testing.assert_array_equal(large[::80, ::80], small)
    odd = np.zeros((LEAST_SIDE + 1, LEAST_SIDE + 3, 3), np.uint8)
    assert enlarged(odd).shape == (LEAST_SIDE + 2, LEAST_SIDE + 4, 3)


@pytest.mark.parametrize("shape", [(84, 84), (84, 84, 4)])
def test_what_is_no_picture_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"bytes \[height, width, 3\]"):
        enlarged(np.zeros(shape, np.uint8))


def test_a_caption_leaves_the_picture_it_was_given(tmp_path: Path) -> None:
    picture = np.full((256, 256, 3), GREY, np.uint8)
    np.testing.assert_array_equal(with_caption(picture, "x")[:256], picture)
    assert (picture == GREY).all()


def test_an_error_within_leaves_no_file(tmp_path: Path) -> None:
    frames = [*moving(2), np.zeros((300, 400, 3), np.uint8)]
    with pytest.raises(ValueError, match="those before had"):
        write_video(tmp_path / "a.mp4", frames, fps=30)
    assert write_video(tmp_path / "none.mp4", [], fps=30) == 0
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(InputError, match=r'videos need av, which is not installed: pip install "shoal\[video\]"'):
        write_video(tmp_path / "a.mp4", moving(1), fps=30)
