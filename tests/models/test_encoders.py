"""What the feed-forward encoders make of observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import Space
from gymnasium.spaces import Box
from model_spaces import PARTS, PICTURES, VECTORS, batch, starts
from torch.nn import functional

from shoal.base.config import Named
from shoal.base.errors import InputError
from shoal.models import build_model
from shoal.models.image import Pixels, channels_last
from shoal.models.layers import ACTIVATIONS, Dense
from shoal.models.vector import Vector


@pytest.mark.parametrize(
    ("space", "observation", "features"),
    [
        ("box", [0.5, -1, 0, 1, 0.25], [0.5, -1, 0, 1, 0.25]),
        ("matrix", [[1, 2, 3], [4, 5, 6]], [1, 2, 3, 4, 5, 6]),
        ("double", [0.5, 0, 0, 1], [0.5, 0, 0, 1]),
        ("bytes", [0, 255, 51, 0, 0, 0], [0, 1, 0.2, 0, 0, 0]),
        ("discrete", 4, [0, 0, 1, 0]),
        ("multi_discrete", [1, 7], [0, 1, 0, 0, 1]),
        ("bits", [1, 0, 1], [1, 0, 1]),
    ],
)
def test_vectors(space: str, observation: Any, features: list[float]) -> None:
    array = np.asarray([observation], dtype=VECTORS[space].dtype)
    out = Vector(VECTORS[space])(torch.from_numpy(array))
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, torch.tensor([features], dtype=torch.float32))


def test_a_box_without_axes_is_one_number() -> None:
    assert Vector(Box(-1, 1, ()))(torch.tensor([0.5, 1.0])).tolist() == [[0.5], [1.0]]


@pytest.mark.parametrize("channels", [1, 3, 4, 5])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_channels_come_to_lie_side_by_side(channels: int, dtype: torch.dtype) -> None:
    planes = torch.randint(0, 256, (7, channels, 9, 11)).to(dtype)
    for pictures in (planes, planes[::2], planes.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)):
        woven = channels_last(pictures)
        assert torch.equal(woven, pictures)
        assert woven.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("space", [PICTURES["hwc"], PICTURES["chw"]], ids=["hwc", "chw"])
def test_pixels(space: Space[Any]) -> None:
    raw = batch(space, 2, 3)
    out = Pixels(space, "nature")(raw)
    height, width = (40, 36) if space is PICTURES["hwc"] else (36, 40)
    assert out.shape == (6, 3, height, width)
    assert out.is_contiguous(memory_format=torch.channels_last)
    expected = raw.flatten(0, 1).double() / 255
    if space is PICTURES["hwc"]:
        expected = expected.permute(0, 3, 1, 2)
    torch.testing.assert_close(out.double(), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", ["nature", "impala"])
def test_the_layout_of_a_picture_does_not_matter(name: str) -> None:
    rows_last, rows_first = Box(0, 255, (36, 48, 3), np.uint8), Box(0, 255, (3, 36, 48), np.uint8)
    torch.manual_seed(0)
    one = build_model(Named.parse({"name": name}), rows_last)
    torch.manual_seed(0)
    other = build_model(Named.parse({"name": name}), rows_first)
    raw, first = batch(rows_last, 2, 2), starts(2, 2, 5)
    a, b = one(raw, None, first)[0], other(raw.permute(0, 1, 4, 2, 3).contiguous(), None, first)[0]
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_pictures_are_left_as_they_were() -> None:
    space = PICTURES["float"]
    raw = batch(space, 2, 2)
    kept = raw.clone()
    build_model(Named.parse({"name": "nature"}), space)(raw, None, starts(2, 2, 5))
    assert torch.equal(raw, kept)


@pytest.mark.parametrize("size", [1, 2, 7, 33])
def test_impala_takes_any_size(size: int) -> None:
    space = Box(0, 255, (size, size + 1, 1), np.uint8)
    model = build_model(Named.parse({"name": "impala", "channels": [4, 8], "hidden": [5]}), space)
    assert model(batch(space, 1, 2), None, starts(1, 2, 5))[0].shape == (1, 2, 5)


def test_board_windows_are_convolutions() -> None:
    space = Box(0, 1, (6, 7, 2), np.int8)
    model = build_model(Named.parse({"name": "board", "channels": [5, 3], "window": 3, "hidden": []}), space)
    raw = batch(space, 2, 4)
    x = raw.flatten(0, 1).permute(0, 3, 1, 2).float()
    for layer, channels in zip(model.layers, (2, 5), strict=True):
        x = functional.conv2d(x, layer.weight.unflatten(1, (channels, 3, 3)), layer.bias).relu()
    expected = x.permute(0, 2, 3, 1).flatten(1).unflatten(0, (2, 4))
    torch.testing.assert_close(model(raw, None, starts(2, 4, 5))[0], expected)
    assert model.features == 2 * 3 * 3


def test_a_window_fits_the_board() -> None:
    with pytest.raises(InputError, match=r"model\.window = 4: 2 layers of it leave nothing of a board of 6 x 7"):
        build_model(Named.parse({"name": "board", "channels": [4, 4]}), Box(0, 1, (6, 7, 2), np.int8))


def test_nature_is_the_network_of_the_paper() -> None:
    model = build_model(Named.parse({"name": "nature"}), Box(0, 255, (4, 84, 84), np.uint8))
    shapes = [tuple(p.shape) for p in model.parameters() if p.dim() > 1]
    assert shapes == [(32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 3136)]


def test_dense_layers_start_orthogonal() -> None:
    dense = Dense(8, [8, 4], "relu")
    for linear in dense.linears:
        weight = linear.weight.detach()
        torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(len(weight)), atol=1e-5, rtol=1e-5)
        assert not linear.bias.any()


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_dense_layers_against_modules(activation: str) -> None:
    torch.manual_seed(0)
    dense = Dense(3, [5, 4], activation, layer_norm=True)  # type: ignore[arg-type]
    modules = {"tanh": "Tanh", "relu": "ReLU", "silu": "SiLU", "elu": "ELU", "gelu": "GELU"}
    x = torch.randn(6, 3)
    expected = x
    for linear, norm in zip(dense.linears, dense.norms, strict=True):  # type: ignore[arg-type]
        expected = getattr(torch.nn, modules[activation])()(norm(linear(expected)))
    torch.testing.assert_close(dense(x), expected)


def test_parts_are_found_by_name_not_by_order() -> None:
    torch.manual_seed(0)
    space = PARTS["dict"]
    model = build_model(Named.parse({"name": "dict"}), space)
    observation, first = batch(space, 2, 2), starts(2, 2, 5)
    turned = dict(reversed(observation.items()))
    assert torch.equal(model(observation, None, first)[0], model(turned, None, first)[0])
    changed = {**observation, "type": (observation["type"] + 1) % 3}
    assert not torch.equal(model(observation, None, first)[0], model(changed, None, first)[0])


@pytest.mark.parametrize("channels_first", [False, True])
def test_stacked_images_are_one_with_more_channels(channels_first: bool) -> None:
    """`[images, ...]` as `frame_stack` makes it: the channels of all, the oldest first."""
    shape = (4, 3, 40, 36) if channels_first else (4, 40, 36, 3)
    space = Box(0, 255, shape, np.uint8)
    raw = batch(space, 2, 5)
    pixels = Pixels(space, "nature")
    out = pixels(raw)
    assert (pixels.channels, out.shape) == (12, (10, 12, 40, 36))
    images = raw if channels_first else raw.movedim(-1, -3)
    torch.testing.assert_close(out, images.reshape(10, 12, 40, 36).float() / 255)
    assert out.is_contiguous(memory_format=torch.channels_last)
    model = build_model(Named(name="auto"), space)
    assert type(model).__name__ == "NatureModel"
    assert model(raw, None, starts(2, 5, 5))[0].shape == (2, 5, 512)


@pytest.mark.parametrize("name", ["nature", "impala"])
@pytest.mark.parametrize("space", [PICTURES["hwc"], PICTURES["chw"]], ids=["hwc", "chw"])
def test_what_was_prepared_is_taken_row_by_row(space: Space[Any], name: str) -> None:
    model, raw = build_model(Named.parse({"name": name}), space), batch(space, 3, 2)
    first = torch.zeros(3, 2, dtype=torch.bool)
    wanted, _ = model(raw, None, first)
    prepared = model.prepared(raw)
    assert prepared.dtype == torch.float32
    for rows in (slice(None), slice(1, None), slice(0, 2)):
        found, _ = model(prepared[rows], None, first[rows])
        torch.testing.assert_close(found, wanted[rows])
