"""From videos of `shoal rollout --video` to a small GIF, one after the other, which every page can show.

    python docs/images/rollouts.py docs/images/spread-team.gif runs/spread/a/rollouts/235-0/episode-0000[12].mp4

`--every 2` omits every second frame, `--last 150` shows the last 150 of each video, `--width` shrinks.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import av
from PIL import Image

COLOURS = 24


def frames_of(path: Path, every: int, last: int | None) -> tuple[list[Image.Image], float]:
    """Those to show, and for how many milliseconds each."""
    with av.open(str(path)) as container:
        rate = float(container.streams.video[0].average_rate or 30)
        frames = [frame.to_image() for frame in container.decode(video=0)]
    return frames[-(last or len(frames)) :: every], 1000 * every / rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gif", type=Path)
    parser.add_argument("videos", type=Path, nargs="+")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--last", type=int)
    parser.add_argument("--width", type=int, default=320)
    options = parser.parse_args()
    shown, pause = [], 0.0
    for video in options.videos:
        frames, pause = frames_of(video, options.every, options.last)
        size = options.width, round(options.width * frames[0].height / frames[0].width)
        shown += [
            frame.resize(size, Image.Resampling.LANCZOS).quantize(COLOURS, dither=Image.Dither.NONE) for frame in frames
        ]
    shown[0].save(options.gif, save_all=True, append_images=shown[1:], duration=round(pause), loop=0, optimize=True)
    print(f"{options.gif}: {len(shown)} frames, {options.gif.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
