"""Meta-solvers: how often to play which member of a population, from a table of what they earn against each other.

`payoffs` holds an array per player, `[members of player 0, members of player 1, ...]`: what that player earns on average. Each
solver answers with a distribution per player. A user's own is a function of the same shape, `module:function`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from shoal.api.env import Array
from shoal.base.errors import InputError

Payoffs = Sequence[Array]
MetaSolver = Callable[[Payoffs], list[Array]]
ALMOST = 1e-9
MOST_JOINT = 4_000
"""Joint choices that alpha-rank can be computed for in seconds."""


def uniform(payoffs: Payoffs) -> list[Array]:
    """All equally often."""
    return [np.full(count, 1.0 / count) for count in payoffs[0].shape]


def nash(payoffs: Payoffs) -> list[Array]:
    """An equilibrium of two players of whom one loses what the other wins: by linear programming.

    Of several it is the one that plays most evenly that is wanted: see `nash_averaging`.
    """
    first = _zero_sum(payoffs, "nash")
    return [_maximin(first)[0], _maximin(-first.T)[0]]


def _maximin(matrix: Array) -> tuple[Array, float]:
    """The rows' distribution that earns most against whatever column, and how much."""
    from scipy.optimize import linprog

    rows, columns = matrix.shape
    least = np.hstack([-matrix.T, np.ones((columns, 1))])
    total = np.append(np.ones(rows), 0.0)[None]
    bounds = [(0.0, None)] * rows + [(None, None)]
    found = linprog(np.append(np.zeros(rows), -1.0), least, np.zeros(columns), total, [1.0], bounds, method="highs")
    assert found.status == 0, found.message
    share = np.maximum(found.x[:-1], 0.0)
    return share / share.sum(), float(found.x[-1])


def nash_averaging(payoff: Array) -> tuple[Array, Array]:
    """Of a table in which everyone met everyone (antisymmetric): the most even equilibrium, and what each earns against it.

    Balduzzi et al. 2018. A copy of a player changes nobody's rating. The equilibrium of most entropy is where the softmax of all
    earnings against it, ever colder, comes to rest: found as a convex programme on the face of all equilibria.
    """
    from scipy.optimize import minimize

    count = len(payoff)
    share = _maximin(payoff)[0]
    inner = 0.999 * share + 0.001 / count

    def entropy(x: Array) -> float:
        return float((x * np.log(np.maximum(x, 1e-12))).sum())

    def slope(x: Array) -> Array:
        return np.asarray(np.log(np.maximum(x, 1e-12)) + 1.0)

    constraints = [
        {"type": "eq", "fun": lambda x: x.sum() - 1.0, "jac": lambda x: np.ones(count)},
        {"type": "ineq", "fun": lambda x: x @ payoff + ALMOST, "jac": lambda x: payoff.T},
    ]
    found = minimize(
        entropy, inner, jac=slope, bounds=[(0.0, 1.0)] * count, constraints=constraints, method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )  # fmt: skip
    even = np.maximum(found.x, 0.0)
    even /= even.sum()
    best = even if found.success and (even @ payoff).min() > -1e-5 else share
    return best, payoff @ best


def fictitious_play(payoffs: Payoffs, steps: int = 10_000) -> list[Array]:
    """Everyone answers best to how often the others did what until now. Brown 1951."""
    counts = [np.ones(count) for count in payoffs[0].shape]
    for _ in range(steps):
        shares = [count / count.sum() for count in counts]
        answers = [int(_earns(payoffs, shares, player).argmax()) for player in range(len(counts))]
        for count, answer in zip(counts, answers, strict=True):
            count[answer] += 1.0
    return [count / count.sum() for count in counts]


def regret_matching(payoffs: Payoffs, steps: int = 10_000) -> list[Array]:
    """In proportion to what each would have earned more; the average over all steps. Hart and Mas-Colell 2000, as RM+."""
    regrets = [np.zeros(count) for count in payoffs[0].shape]
    sums = [np.zeros(count) for count in payoffs[0].shape]
    for step in range(1, steps + 1):
        for player, regret in enumerate(regrets):  # one after the other: each knows what those before it do now
            shares = [_proportional(each) for each in regrets]
            earned = _earns(payoffs, shares, player)
            regret[:] = np.maximum(regret + earned - earned @ shares[player], 0.0)
            sums[player] += step * shares[player]
    return [each / each.sum() for each in sums]


def _proportional(regret: Array) -> Array:
    total = regret.sum()
    even: Array = np.full(len(regret), 1.0 / len(regret))
    return regret / total if total > 0 else even


def replicator(payoffs: Payoffs, steps: int = 10_000, dt: float = 5e-2, least: float = 1e-6) -> list[Array]:
    """What earns more than the average grows, and nothing dies out: projected replicator dynamics. Lanctot et al. 2017.

    The average over all steps; `dt` is for payoffs that lie 1 apart, to which others are scaled.
    """
    spread = max(float(np.ptp(each)) for each in payoffs) or 1.0
    payoffs = [each / spread for each in payoffs]
    shares, sums = uniform(payoffs), [np.zeros(count) for count in payoffs[0].shape]
    for _ in range(steps):
        earned = [_earns(payoffs, shares, player) for player in range(len(shares))]
        shares = [
            _project(share + dt * share * (gain - gain @ share), least)
            for share, gain in zip(shares, earned, strict=True)
        ]
        for total, share in zip(sums, shares, strict=True):
            total += share
    return [each / each.sum() for each in sums]


def _project(share: Array, least: float) -> Array:
    """The nearest distribution that gives everyone `least`."""
    room = 1.0 - least * len(share)
    ordered = np.sort(share - least)[::-1]
    over = (np.cumsum(ordered) - room) / np.arange(1, len(share) + 1)
    cut = over[np.flatnonzero(ordered > over)[-1]]
    projected: Array = np.maximum(share - least - cut, 0.0) + least
    return projected


def alpha_rank(payoffs: Payoffs, alpha: float = 50.0, population: int = 50) -> list[Array]:
    """How often a population in which better play spreads is found where. Omidshafiei et al. 2019.

    A chain over all joint choices: somebody tries another member, and it spreads the more surely the more it earns. Right for any
    number of players and for games that are not zero-sum; the chain has as many states as there are joint choices.
    """
    shape = payoffs[0].shape
    size, players = int(np.prod(shape)), len(shape)
    if size > MOST_JOINT:
        raise InputError(
            f"alpha_rank of {size:,} joint choices is too large: choose replicator, or a smaller league.keep"
        )
    moves = sum(count - 1 for count in shape)
    chain = np.zeros((size, size))
    index = np.arange(size).reshape(shape)
    for player in range(players):
        earned = np.moveaxis(payoffs[player], player, 0).reshape(shape[player], -1)
        states = np.moveaxis(index, player, 0).reshape(shape[player], -1)
        for now in range(shape[player]):
            for other in range(shape[player]):
                if now != other:
                    chain[states[now], states[other]] = _spreads(earned[other] - earned[now], alpha, population) / moves
    return _marginals(_stationary(chain), shape)


def alpha_rank_symmetric(payoff: Array, alpha: float = 50.0, population: int = 50) -> Array:
    """The same for one population whose members meet each other: `payoff[i, j]` is what i earns against j."""
    count = len(payoff)
    if count == 1:
        return np.ones(1)
    chain = np.zeros((count, count))
    for now in range(count):
        for other in range(count):
            if now != other:  # one who plays `other` among those who play `now`
                chain[now, other] = _fixation(payoff, now, other, alpha, population) / (count - 1)
    return _stationary(chain)


def _spreads(gain: Array, alpha: float, population: int) -> Array:
    """The chance that one who earns `gain` more takes over everybody: 1/population where it is nothing."""
    exponent = np.clip(alpha * gain, -700.0 / population, 700.0 / population)
    with np.errstate(invalid="ignore", divide="ignore"):
        chance = -np.expm1(-exponent) / -np.expm1(-population * exponent)
    found: Array = np.where(np.abs(exponent) < 1e-12, 1.0 / population, chance)
    return found


def _fixation(payoff: Array, now: int, other: int, alpha: float, population: int) -> float:
    """With k of them in the population, each meets all others."""
    k = np.arange(1, population)
    new = ((k - 1) * payoff[other, other] + (population - k) * payoff[other, now]) / (population - 1)
    old = (k * payoff[now, other] + (population - k - 1) * payoff[now, now]) / (population - 1)
    logs = np.cumsum(-alpha * (new - old))
    top = max(0.0, float(logs.max(initial=0.0)))
    return float(np.exp(-top) / (np.exp(-top) + np.exp(logs - top).sum()))


def _stationary(chain: Array) -> Array:
    """Where a chain with these chances of leaving is found in the long run."""
    count = len(chain)
    chain = chain.copy()
    np.fill_diagonal(chain, 0.0)
    np.fill_diagonal(chain, 1.0 - chain.sum(axis=1))
    balance = np.vstack([chain.T - np.eye(count), np.ones(count)])
    found: Array = np.linalg.lstsq(balance, np.append(np.zeros(count), 1.0), rcond=None)[0]
    found = np.maximum(found, 0.0)
    return found / found.sum()


def _marginals(joint: Array, shape: tuple[int, ...]) -> list[Array]:
    table = joint.reshape(shape)
    return [table.sum(axis=tuple(other for other in range(len(shape)) if other != p)) for p in range(len(shape))]


def _earns(payoffs: Payoffs, shares: list[Array], player: int) -> Array:
    """What each choice of a player earns against the others' distributions."""
    table = np.moveaxis(payoffs[player], player, 0)
    for other in reversed([each for each in range(len(shares)) if each != player]):
        table = table @ shares[other]
    return table


def _zero_sum(payoffs: Payoffs, solver: str) -> Array:
    if len(payoffs) != 2 or not np.allclose(payoffs[0], -payoffs[1], atol=1e-6):
        raise InputError(
            f"{solver} is for two players of whom one loses what the other wins: choose replicator or alpha_rank"
        )
    return np.asarray(payoffs[0], np.float64)
