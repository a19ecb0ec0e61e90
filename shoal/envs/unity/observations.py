"""Observations of a behaviour: messages of its agents in, arrays `[agents, ...]` out, one for each of its sensors."""

from __future__ import annotations

import io
import math
import re
import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict

from shoal.api.env import Array
from shoal.base.errors import InputError

PNG = b"\x89PNG\r\n\x1a\n"


class Sensor(NamedTuple):
    """One observation of every agent of a behaviour."""

    name: str
    number: int
    shape: tuple[int, ...]
    compressed: bool
    """It comes as images (PNG), three channels each, and is bytes; otherwise floats."""

    @property
    def space(self) -> Box:
        """What policies see."""
        if self.compressed:
            return Box(0, 255, self.shape, np.uint8)
        return Box(-np.inf, np.inf, self.shape, np.float32)

    def read(self, infos: Sequence[Any]) -> Array:
        """Of these agents; ValueError says what does not fit."""
        parts = [info.observations[self.number] for info in infos]
        if self.compressed:
            return np.stack([read_image(part.png, self.shape, part.mapping) for part in parts])
        numbers = np.frombuffer(b"".join([part.floats.data for part in parts]), "<f4")
        if numbers.size != len(parts) * math.prod(self.shape):
            raise ValueError(f"observation '{self.name}' has {numbers.size} numbers for {len(parts)} of {self.shape}")
        if not np.isfinite(numbers).all():
            raise ValueError(f"observation '{self.name}' holds a number that is not finite")
        return numbers.reshape(len(parts), *self.shape)


def sensors_of(info: Any) -> tuple[Sensor, ...]:
    """The observations of a behaviour, as one of its agents shows them."""
    names = [re.sub(r"\W+", "_", each.name) or f"observation_{i}" for i, each in enumerate(info.observations)]
    many = {name for name, count in Counter(names).items() if count > 1}
    return tuple(
        Sensor(f"{name}_{i}" if name in many else name, i, tuple(each.shape), each.compression != 0)
        for i, (name, each) in enumerate(zip(names, info.observations, strict=True))
    )


def space_of(sensors: tuple[Sensor, ...], behaviour: str) -> Space[Any]:
    """One observation as it is, several by their names."""
    if not sensors:
        raise InputError(f"behaviour '{behaviour}' observes nothing: give its agents a sensor")
    if len(sensors) == 1:
        return sensors[0].space
    return Dict([(sensor.name, sensor.space) for sensor in sensors])


# ---------------------------------------------------------------- images


def read_image(data: bytes, shape: tuple[int, ...], mapping: Sequence[int]) -> Array:
    """Images one behind the other -> uint8 `shape`, with the channels first or last as the shape has them."""
    from PIL import Image

    try:
        images = [np.asarray(Image.open(io.BytesIO(part)).convert("RGB")) for part in split_pngs(data)]
    except (OSError, struct.error, SyntaxError) as error:
        raise ValueError(f"an image cannot be read: {error}") from error
    if not images or len(shape) != 3 or len({image.shape for image in images}) > 1:
        raise ValueError(f"{len(images)} images came for an observation of {shape}")
    size = images[0].shape[:2]
    first = shape[1:] == size
    if not first and shape[:2] != size:
        raise ValueError(f"an image of {size[0]} x {size[1]} came for an observation of {shape}")
    image = _channels(np.concatenate(images, axis=2), shape[0] if first else shape[2], mapping)
    return image.transpose(2, 0, 1) if first else image


def _channels(image: Array, count: int, mapping: Sequence[int]) -> Array:
    """`[height, width, what came]` -> `[height, width, count]`. Several channels that are mapped to one are averaged."""
    if not mapping:
        return _mean(image[..., :3]) if count == 1 else _first(image, count)
    targets = np.asarray(mapping)
    if len(targets) != image.shape[2] or set(range(count)) != {target for target in mapping if target >= 0}:
        raise ValueError(f"the channel mapping {list(mapping)} does not fit {image.shape[2]} channels onto {count}")
    return np.concatenate([_mean(image[..., targets == channel]) for channel in range(count)], axis=2)


def _mean(image: Array) -> Array:
    if image.shape[2] == 1:
        return image
    return (image.mean(axis=2, keepdims=True) + 0.5).astype(np.uint8)


def _first(image: Array, count: int) -> Array:
    if image.shape[2] < count:
        raise ValueError(f"{image.shape[2]} channels came where {count} were due")
    return image[..., :count]


def split_pngs(data: bytes) -> list[bytes]:
    """Files one behind the other, by their own lengths."""
    parts, at = [], 0
    while at < len(data):
        if data[at : at + 8] != PNG:
            raise ValueError("an image is no PNG")
        end, kind = at + 8, b""
        while kind != b"IEND":
            size, kind = struct.unpack_from(">I4s", data, end)
            end += 12 + size
        parts.append(data[at:end])
        at = end
    return parts
