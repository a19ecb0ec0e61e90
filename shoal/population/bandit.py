"""Where to try next, by a Gaussian process over places and time: PB2 (Parker-Holder et al. 2020). Pure functions.

Places lie in the unit cube, times are whole numbers. What was seen long ago says less about now, by the kernel of TV-GP-UCB
(Bogunovic et al. 2016). In comes what was gained where and when, and where somebody tries already; out goes a place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Array = NDArray[np.float64]

LENGTHS = np.geomspace(0.05, 3.0, 9)
NOISES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
FORGETS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Kernels that are tried: a grid has no beginning on which its end depends."""
FIRST, ROUNDS, BEST, AROUND = 1024, 8, 8, 32
"""Of the search for a maximum: places anywhere, then rounds of so many around each of the best, each round nearer."""
DIGITS = 6
"""Of a place: what rounding in the arithmetic could change is cut off."""


class Kernel(NamedTuple):
    """How much what is seen at one place and time says about another."""

    length: float
    """Of the squared exponential, as a part of the cube's edge."""
    noise: float
    """Variance of what is seen at one place, as a part of `variance`."""
    forget: float
    """Part of the correlation that is lost in two steps of time."""
    variance: float = 1.0
    """Of what is to be learned."""


class Seen(NamedTuple):
    """What was gained."""

    times: Array
    """[n]"""
    places: Array
    """[n, d]"""
    gains: Array
    """[n]"""


class Proposal(NamedTuple):
    """A place to try."""

    place: Array
    mean: float
    """Expected gain there."""
    deviation: float


def covariance(kernel: Kernel, times: Array, places: Array, other_times: Array, other_places: Array) -> Array:
    """[n, m]: of the values at n places and times with those at m others."""
    squares = ((places[:, None, :] - other_places[None, :, :]) ** 2).sum(-1)
    ages = np.abs(times[:, None] - other_times[None, :])
    found: Array = kernel.variance * np.exp(-squares / (2 * kernel.length**2)) * (1 - kernel.forget) ** (ages / 2)
    return found


def posterior(kernel: Kernel, seen: Seen, times: Array, places: Array) -> tuple[Array, Array]:
    """Mean and variance [m] of the values at m places and times."""
    factor = _factor(kernel, seen)
    across = np.linalg.solve(factor, covariance(kernel, seen.times, seen.places, times, places))  # [n, m]
    mean = across.T @ np.linalg.solve(factor, seen.gains)
    return mean, np.maximum(kernel.variance - (across**2).sum(0), 0.0)


def _factor(kernel: Kernel, seen: Seen) -> Array:
    """Lower triangular [n, n]: the Cholesky factor of the covariance of what was seen."""
    own = covariance(kernel, seen.times, seen.places, seen.times, seen.places)
    return np.asarray(np.linalg.cholesky(own + kernel.variance * kernel.noise * np.eye(len(own))), np.float64)


def fit(seen: Seen) -> Kernel:
    """The kernel of the grid under which the gains are likeliest; the variance that is likeliest with it has a closed form."""

    def likelihood(kernel: Kernel) -> tuple[float, float]:
        factor = _factor(kernel, seen)
        variance = max(float((np.linalg.solve(factor, seen.gains) ** 2).mean()), 1e-12)
        return -len(seen.gains) / 2 * math.log(variance) - float(np.log(np.diag(factor)).sum()), variance

    grid = [
        Kernel(float(length), noise, forget) for length, noise, forget in itertools.product(LENGTHS, NOISES, FORGETS)
    ]
    found = [likelihood(kernel) for kernel in grid]
    best = max(range(len(grid)), key=lambda number: found[number][0])
    return grid[best]._replace(variance=found[best][1])


def optimism(time: float) -> float:
    """The square of how many standard deviations count: c1 + log(c2 t), never below c1; constants of the authors' code."""
    return 0.2 + max(0.0, math.log(0.4 * time)) if time > 0 else 0.2


def upper_bound(kernel: Kernel, seen: Seen, pending: Array, time: float, places: Array) -> Array:
    """[m]: what may be gained at m places at `time`. `pending` [k, d]: where others try then. They add no gain that could be known,
    but take away from the variance, so that nobody tries what another does (Desautels et al. 2014)."""
    times = np.full(len(places), time)
    mean, _ = posterior(kernel, seen, times, places)
    joined = Seen(
        np.concatenate([seen.times, np.full(len(pending), time)]),
        np.concatenate([seen.places, pending]),
        np.zeros(len(seen.gains) + len(pending)),
    )
    _, variance = posterior(kernel, joined, times, places)
    found: Array = mean + np.sqrt(optimism(time) * variance)
    return found


def propose(seen: Seen, pending: Array, time: float, random: np.random.Generator) -> Proposal:
    """The place with the highest upper bound at `time`, by the kernel that fits best."""
    with threadpool_limits(1):  # the same bits, however many cores there are
        scale, centre = float(seen.gains.std()) or 1.0, float(seen.gains.mean())
        known = seen._replace(gains=(seen.gains - centre) / scale)
        kernel = fit(known)
        place = maximise(lambda places: upper_bound(kernel, known, pending, time, places), seen.places.shape[1], random)
        mean, variance = posterior(kernel, known, np.array([time]), place[None])
    return Proposal(place, float(mean[0]) * scale + centre, math.sqrt(float(variance[0])) * scale)


def maximise(function: Callable[[Array], Array], dimensions: int, random: np.random.Generator) -> Array:
    """Where in the unit cube a function of places [n, d] is highest: anywhere first, then nearer and nearer to the best."""
    places: Any = random.random((FIRST, dimensions))
    values = function(places)
    reach = 0.1
    for _ in range(ROUNDS):
        best = np.argsort(-values, kind="stable")[:BEST]
        near = np.clip(
            places[best].repeat(AROUND, 0) + reach * random.normal(size=(BEST * AROUND, dimensions)), 0.0, 1.0
        )
        places, values = np.concatenate([places[best], near]), np.concatenate([values[best], function(near)])
        reach /= 3
    found: Array = np.round(places[int(np.argmax(values))], DIGITS)
    return found
