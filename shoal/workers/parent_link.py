"""A trainer's end of the exchange with a parent elsewhere: what it has learned goes into one mailbox, what the parent makes of it
comes out of another. Who carries it in between is not seen from here: the uplink worker of `shoal.federation`, or a test by hand.

    up, of each replica:  round, updates, steps, answers seen | parameters | normalisers
    down, to all:         answered, whole, due                | parameters before, after | normalisers after

What comes down is a difference: parameters `before` became `after`. It is added to whatever a replica has by then, so that nothing
is lost that was learned meanwhile; where a replica has `before`, it goes to `after` to the bit. `due` changes nothing: the uplink,
which hears of all episodes, asks for what was learned.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from shoal.api.algorithm import Algorithm
from shoal.api.program import MailboxShape
from shoal.base.cadence import Moment, episodes_in, is_due
from shoal.base.config import Config, Duration, RoundCadence
from shoal.models.moments import carry_over
from shoal.models.normaliser import EPSILON, Moments
from shoal.streams.primitives import Mailbox

WORDS = 4
"""Of 8 bytes each, before a block."""
KEPT = 8
"""Answers that wait for a replica which is slow to look."""

Vector = NDArray[np.float32]
Statistics = NDArray[np.float64]


class ParentConfig(Config):
    """How a child's rounds go. `shoal child` fills it in with what its parent says."""

    every: RoundCadence = "20 updates"
    """A round: so many updates, environment steps, episodes of all replicas, or so much time."""
    alpha: float = Field(1.0, gt=0, le=1)
    """How much of the parent's weights to take."""
    waits: bool = False
    """For the weights that come of a round, before the next update."""
    patience: Duration = 60.0
    """The longest wait, also for the first weights: then it goes on alone until some come."""


def trained(algorithm: Algorithm) -> list[Tensor]:
    """The parameters that optimisers move, each block once."""
    flats = {id(optimiser.flat): optimiser.flat for optimiser in algorithm.optimisers}
    return [flat.parameters.detach() for flat in flats.values()]


def set_trained(algorithm: Algorithm, vector: Tensor) -> None:
    """All of them, from one vector."""
    blocks = trained(algorithm)
    for block, part in zip(blocks, vector.split([len(block) for block in blocks]), strict=True):
        block.copy_(part)


def normalisers(algorithm: Algorithm) -> list[Moments]:
    """Of the observations: what is part of a version."""
    return [module for module in algorithm.policy.modules() if isinstance(module, Moments)]


def statistics(algorithm: Algorithm) -> Statistics:
    """Of all normalisers, one behind the other: see `shoal.models.moments`."""
    parts = [
        torch.cat([each.count.reshape(1), each.mean.double().flatten(), each.variance.double().flatten()])
        for each in normalisers(algorithm)
    ]
    return torch.cat(parts).cpu().numpy() if parts else np.zeros(0)


def set_statistics(algorithm: Algorithm, values: Statistics) -> None:
    """The same, back."""
    at = 0
    for each in normalisers(algorithm):
        size = each.mean.numel()
        count, mean, variance = torch.from_numpy(values[at : at + 1 + 2 * size].copy()).split([1, size, size])
        each.count.copy_(count[0])
        each.mean.copy_(mean.view(each.mean.shape))
        each.variance.copy_(variance.view(each.mean.shape))
        each.scale.copy_((each.variance + EPSILON).rsqrt())
        at += 1 + 2 * size


def sizes(algorithm: Algorithm) -> tuple[int, list[int]]:
    """Parameters, and the features of each normaliser."""
    return sum(len(block) for block in trained(algorithm)), [each.mean.numel() for each in normalisers(algorithm)]


def carried(here: Statistics, origin: Statistics, there: Statistics, features: list[int]) -> Statistics:
    """`carry_over`, normaliser by normaliser."""
    found, at = there.copy(), 0
    for size in features:
        part = slice(at, at + 1 + 2 * size)
        found[part] = carry_over(here[part], origin[part], there[part])
        at += 1 + 2 * size
    return found


class Up:
    """What a replica gives."""

    def __init__(self, mailbox: Mailbox, size: int, features: list[int]) -> None:
        self._mailbox, self._size = mailbox, size
        self._block = np.zeros(up_shape(size, features).nbytes, np.uint8)

    @property
    def newest(self) -> int:
        """The newest round that is there; -1: none."""
        return self._mailbox.latest()

    def give(self, updates: int, steps: int, seen: int, vector: Vector, values: Statistics) -> None:
        """A round is over. `seen`: the newest answer that is in it."""
        round_ = max(0, self.newest) + 1
        words = np.array([round_, updates, steps, seen], np.int64)
        self._block[:] = np.concatenate([each.view(np.uint8) for each in (words, vector, values)])
        self._mailbox.publish(round_, self._block)

    def read(self) -> tuple[int, int, int, Vector, Statistics] | None:
        """Updates, steps, answer seen, parameters, normalisers of the newest; None: it is being replaced, or there is none."""
        newest = self.newest
        if newest < 0 or not self._mailbox.read(newest, self._block):
            return None
        _, updates, steps, seen = self._block[: 8 * WORDS].view(np.int64).tolist()
        at = 8 * WORDS + 4 * self._size
        return updates, steps, seen, self._block[8 * WORDS : at].view(np.float32).copy(), _float64(self._block[at:])


class Down:
    """What comes of it."""

    def __init__(self, mailbox: Mailbox, size: int, features: list[int]) -> None:
        self._mailbox, self._size = mailbox, size
        self._block = np.zeros(down_shape(size, features).nbytes, np.uint8)
        self.due = False
        """What was read last is a question for what was learned, no answer."""

    @property
    def newest(self) -> int:
        """The newest answer; -1: none yet."""
        return self._mailbox.latest()

    def give(self, before: Vector | None, after: Vector, values: Statistics, *, answered: bool) -> None:
        """`answered`: `before` is what the replicas gave; otherwise what they had last. None: go to `after`, whatever you have."""
        words = np.array([answered, before is None, 0, 0], np.int64)
        start = after if before is None else before
        self._block[:] = np.concatenate([each.view(np.uint8) for each in (words, start, after, values)])
        self._mailbox.publish(self.newest + 1, self._block)

    def ask(self) -> None:
        """A round is over."""
        self._block[: 8 * WORDS] = np.array([0, 0, 1, 0], np.int64).view(np.uint8)
        self._mailbox.publish(self.newest + 1, self._block)

    def read(self, number: int) -> tuple[bool, bool, Vector, Vector, Statistics] | None:
        """Whether it answers, whether it is whole, parameters before and after, normalisers after; None: too late for that one."""
        if not self._mailbox.read(number, self._block):
            return None
        answered, whole, due, _ = self._block[: 8 * WORDS].view(np.int64).tolist()
        self.due = bool(due)
        first, second = 8 * WORDS + 4 * self._size, 8 * WORDS + 8 * self._size
        before = self._block[8 * WORDS : first].view(np.float32).copy()
        after = self._block[first:second].view(np.float32).copy()
        return bool(answered), bool(whole), before, after, _float64(self._block[second:])


def _float64(part: NDArray[np.uint8]) -> Statistics:
    return np.frombuffer(part.tobytes(), np.float64)


def up_shape(size: int, features: list[int]) -> MailboxShape:
    """Of what a replica gives."""
    return MailboxShape(8 * WORDS + 4 * size + 8 * sum(1 + 2 * each for each in features))


def down_shape(size: int, features: list[int]) -> MailboxShape:
    """Of what comes of it."""
    return MailboxShape(8 * WORDS + 8 * size + 8 * sum(1 + 2 * each for each in features), KEPT)


class ParentLink:
    """One replica's."""

    def __init__(
        self, algorithm: Algorithm, up: Mailbox, down: Mailbox, config: ParentConfig,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        size, self._features = sizes(algorithm)
        self._up, self._down = Up(up, size, self._features), Down(down, size, self._features)
        self._config, self._clock = config, clock
        self._joined = self._up.newest >= 0
        """It has weights of the parent's: in a new life those that the last one had, with all that came before."""
        self._seen = self._down.newest if self._joined else -1
        self._asks = episodes_in(config.every) is not None
        self._due = self._joined
        """The uplink has asked for what was learned; perhaps an earlier life."""
        self._open = False
        """The last round is not answered yet."""
        self._waits_since = clock()
        self._last = Moment(clock())
        self._origin = statistics(algorithm)
        """Normalisers as the parent knows them: what came since is this replica's own."""
        self._given = self._origin

    def may_begin(self) -> bool:
        """Whether the next update may: not while weights are waited for that come in time."""
        waits = not self._joined or (self._open and self._config.waits)
        if not waits or self._down.newest > self._seen:
            return True
        return self._clock() - self._waits_since >= self._config.patience

    def begin(self, algorithm: Algorithm) -> bool:
        """Take in what has come; whether something has."""
        newest, changed = self._down.newest, False
        for number in range(max(self._seen + 1, newest - KEPT + 1), newest + 1):
            if (answer := self._down.read(number)) is None:
                continue
            if self._down.due:
                self._due = True
            else:
                self._take(algorithm, *answer)
                changed = True
        self._seen = newest
        return changed

    def _take(
        self, algorithm: Algorithm, answered: bool, whole: bool, before: Vector, after: Vector, values: Statistics
    ) -> None:
        here, after_ = torch.cat(trained(algorithm)).cpu(), torch.from_numpy(after)
        if whole:
            vector = after_
        else:
            start = torch.from_numpy(before)
            moved = here + self._config.alpha * (after_ - start)
            there = after_ if self._config.alpha == 1 else moved
            vector = torch.where(here == start, there, moved)
        set_trained(algorithm, vector)
        if values.size:
            own = statistics(algorithm)
            origin = self._given if answered and self._open else self._origin
            set_statistics(algorithm, values if whole else carried(own, origin, values, self._features))
        self._origin = values
        self._joined = True
        self._open = False

    def updated(self, algorithm: Algorithm, updates: int, steps: int) -> None:
        """An update is done: perhaps a round is, too. One that is due while the last is not answered yet goes on."""
        now = Moment(self._clock(), steps, updates)
        if self._open or not self._joined:
            return
        if not (self._due if self._asks else is_due(self._config.every, self._last, now)):
            return
        self._due = False
        self._last, self._open, self._waits_since = now, True, now.seconds
        self._given = statistics(algorithm)
        self._up.give(updates, steps, self._seen, torch.cat(trained(algorithm)).cpu().numpy(), self._given)
