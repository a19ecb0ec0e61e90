"""A copy of all that a trainer has learned, in memory that outlives its process: the next life goes on from there.

Consumes the blocks of an algorithm; a mailbox of one version keeps them, beside that in which parameters are published.
A copy is made after every update, unless that would take more than a share of the time: then parameters are those that were
published last, and what optimisers and targets remember is a little older.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from shoal.api.algorithm import Algorithm
from shoal.streams.primitives import Mailbox

SHARE = 0.02
"""Of the time, that copies may take."""
COUNTER = 8
"""Bytes of the number of updates."""


def shadow_nbytes(algorithm: Algorithm) -> int:
    """Of one copy."""
    return COUNTER + sum(block.nbytes for block in algorithm.blocks())


class Shadow:
    """Legal order: `restore` by a life after a death, before anything else; then `keep` after every update."""

    def __init__(self, algorithm: Algorithm, mailbox: Mailbox) -> None:
        self._algorithm, self._mailbox = algorithm, mailbox
        self._copy = np.empty(shadow_nbytes(algorithm), np.uint8)
        self._due = 0.0

    def keep(self, version: int) -> None:
        """Copy everything as it is now, if that does not take too much of the time."""
        began = time.perf_counter()
        if began < self._due or version <= self._mailbox.latest():
            return
        self._copy[:COUNTER].view(np.int64)[0] = self._algorithm.updates
        at = COUNTER
        for block in self._algorithm.blocks():
            self._copy[at : at + block.nbytes] = block.cpu().numpy()
            at += block.nbytes
        self._mailbox.publish(version, self._copy)
        ended = time.perf_counter()
        self._due = ended + (ended - began) / SHARE

    @torch.no_grad()
    def restore(self) -> int | None:
        """Make everything what it was at the last copy; its version, or None: there is none."""
        version = self._mailbox.latest()
        if version < 0 or not self._mailbox.read(version, self._copy):
            return None
        self._algorithm.updates = int(self._copy[:COUNTER].view(np.int64)[0])
        at = COUNTER
        for block in self._algorithm.blocks():
            block.copy_(torch.from_numpy(self._copy[at : at + block.nbytes]))
            at += block.nbytes
        return version
