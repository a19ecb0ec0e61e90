"""Native environments draw what is there, where it is."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.api.env import Array
from shoal.api.experiment import EnvConfig
from shoal.envs import make_env
from shoal.envs.drawing import COLOURS, INK, canvas, disc, to_image
from shoal.envs.mpe.particles import SIDE, STONE, Particles
from shoal.envs.native.connect_four import CELL, RED, YELLOW
from shoal.envs.registry import ENVS

PARTICLES = [name for name, home in ENVS.items() if ".mpe." in home]


def near(pixel: Array, colour: tuple[int, int, int], tolerance: int = 40) -> bool:
    return bool(np.abs(pixel.astype(int) - colour).max() <= tolerance)


def test_a_disc_covers_its_area_and_fades_at_its_edge() -> None:
    drawn = canvas(80, 120, (0, 0, 0))
    disc(drawn, 70, 30, 12.5, (100, 200, 255))
    shares = drawn[..., 1] / 200
    assert shares.sum() == pytest.approx(np.pi * 12.5**2, rel=0.02)
    assert shares[30, 70] == shares[30, 80] == shares[40, 70] == 1
    assert shares[30, 84] == shares[44, 70] == 0
    rows, columns = np.mgrid[:80, :120]
    assert (shares * rows).sum() / shares.sum() == pytest.approx(30)
    assert (shares * columns).sum() / shares.sum() == pytest.approx(70)
    assert ((shares > 0) & (shares < 1)).any()


@pytest.mark.parametrize(("x", "y"), [(-5, 20), (45, 20), (20, -5), (20, 45), (-90, 20), (20, 990)])
def test_what_lies_outside_is_cut_off(x: float, y: float) -> None:
    drawn = canvas(40, 40, (0, 0, 0))
    disc(drawn, x, y, 10, (255, 255, 255), 0.5)
    rows, columns = np.mgrid[:40, :40]
    inside = np.hypot(rows - y, columns - x) < 9.5
    assert (to_image(drawn)[inside] == 128).all()
    assert drawn.sum() == pytest.approx(
        3 * 255 * 0.5 * np.clip(10.5 - np.hypot(rows - y, columns - x), 0, 1).sum(), rel=1e-4
    )


@pytest.mark.parametrize("world", PARTICLES)
def test_every_particle_world_draws_its_bodies(world: str) -> None:
    env = make_env(EnvConfig(id=world), 2)
    assert isinstance(env, Particles)
    env.reset(3)
    place = np.linspace(-0.9, 0.9, len(env.physics.size))
    env.physics.position[:, 0] = place[:, None]
    env.physics.position[:, 1, 0], env.physics.position[:, 1, 1] = 0.5, -0.5
    seen = env.render(0), env.render(1)
    assert seen[0].shape == (SIDE, SIDE, 3)
    assert seen[0].dtype == np.uint8
    below, above = (round(SIDE / 2 + sign * 0.5 * SIDE / 2.4) for sign in (1, -1))
    rims = [(0, 0, 0)] * len(env.physics.size)
    for members, colour in zip(env.scenario.members.values(), COLOURS, strict=False):
        rims[members] = [colour] * (members.stop - members.start)
    bodies = env.scenario.landmarks
    rims[env.physics.landmarks] = [STONE if body.collide else INK for body in bodies]
    last = len(place) - 1
    column = round(SIDE / 2 + place[last] * SIDE / 2.4)
    assert near(seen[0][above, column], rims[last])
    assert not near(seen[0][below, column], rims[last], 10)
    assert near(seen[1][below, column], rims[last])


def test_the_view_widens_for_those_who_leave() -> None:
    env = make_env(EnvConfig(id="shoal/simple"), 1)
    assert isinstance(env, Particles)
    env.reset(0)
    env.physics.position[:, :, 0] = [[3.0, 0.0], [0.0, 0.0]]
    seen = env.render(0)
    assert any(near(pixel, COLOURS[0]) for pixel in seen[SIDE // 2, SIDE // 2 + 20 :])


def test_a_board_shows_its_stones() -> None:
    env = make_env(EnvConfig(id="shoal/connect-four"), 2)
    env.reset(0)
    for column in (3, 3, 5):
        env.step({"player": np.full((2, 2), column)})
    seen = env.render(1)
    assert seen is not None
    half = CELL // 2
    middle = {place: seen[place[0] * CELL + half, place[1] * CELL + half] for place in np.ndindex(6, 7)}
    assert [place for place, pixel in middle.items() if near(pixel, YELLOW, 5)] == [(5, 3), (5, 5)]
    assert [place for place, pixel in middle.items() if near(pixel, RED, 5)] == [(4, 3)]
