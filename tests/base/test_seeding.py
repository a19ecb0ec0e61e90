"""Random numbers are functions of what they are for."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from shoal.base.seeding import Generators, Noise, derive_seed, generator


def test_same_question_same_numbers() -> None:
    assert np.array_equal(generator(1, "a", 2, 3).random(5), generator(1, "a", 2, 3).random(5))


def test_every_part_of_the_question_matters() -> None:
    asked = [(1, "a", 2, 3), (2, "a", 2, 3), (1, "b", 2, 3), (1, "a", 3, 3), (1, "a", 2, 4)]
    assert len({generator(*question).random() for question in asked}) == len(asked)


def test_one_that_is_set_anew_gives_what_new_ones_give() -> None:
    generators = Generators(4, "a")
    for slot, counter in ((0, 0), (3, 9), (0, 0), (2, 2**40)):
        wanted = generator(4, "a", slot, counter)
        given = generators.at(slot, counter)
        assert np.array_equal(given.integers(0, 9, 7, np.int32), wanted.integers(0, 9, 7, np.int32))
        assert np.array_equal(given.random(5), wanted.random(5))


def test_equal_in_another_process() -> None:
    code = "from shoal.base.seeding import derive_seed; print(derive_seed(5, 'env', 1, 2))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(other.stdout) == derive_seed(5, "env", 1, 2)


def test_noise_of_a_lane_does_not_depend_on_its_company() -> None:
    together = Noise(3, "n", np.arange(8), 2)
    apart = Noise(3, "n", np.arange(4, 8), 2)
    for t in (0, 1, 127, 128, 500, 3):
        assert np.array_equal(together.at(t)[4:], apart.at(t))


def test_noise_is_that_of_each_lane_s_own_generator() -> None:
    noise = Noise(3, "n", np.array([7, 0, 2]), 3)
    for t in (130, 5, 255):
        block, row = divmod(t, Noise.BLOCK)
        wanted = [generator(3, "n", lane, block).random((Noise.BLOCK, 3), np.float32)[row] for lane in (7, 0, 2)]
        assert np.array_equal(noise.at(t), wanted)


def test_noise_can_be_held() -> None:
    every, held = Noise(3, "n", np.arange(4), 2), Noise(3, "n", np.arange(4), 2, hold=5)
    for t in (0, 4, 5, 127, 129, 131):  # 127 to 129 share theirs over the end of a block
        assert np.array_equal(held.at(t), every.at(t - t % 5))


def test_noise_is_uniform() -> None:
    noise = Noise(0, "u", np.arange(64), 1)
    values = np.concatenate([noise.at(t).ravel() for t in range(200)])
    counts, _ = np.histogram(values, 10, (0, 1))
    assert ((counts - 1280) ** 2 / 1280).sum() < 27.9  # chi-square, 9 degrees of freedom, p = 0.001
    assert values.min() >= 0
    assert values.max() < 1
