"""Taking an update back: copies of all that an update changes, and the way back to them."""

from __future__ import annotations

import torch
from torch import Tensor

from shoal.api.algorithm import Algorithm


class Undo:
    """Goes back to the last `note` when an update failed halfway, so that a dropped batch leaves no trace.

    Legal order: `note` before an update, `back` if it raised NonFiniteError. Blocks are flat, so a note is a few copies. It is
    no use where replicas train by `hogwild`: others write into the same memory meanwhile, and their steps would be lost.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._copies: list[Tensor] = []
        self._updates = algorithm.updates
        self.note()

    @torch.no_grad()
    def note(self) -> None:
        """Remember everything as it is now."""
        blocks = self._algorithm.blocks()
        if not self._copies:
            self._copies = [torch.empty_like(block) for block in blocks]
        for copy, block in zip(self._copies, blocks, strict=True):
            copy.copy_(block)
        self._updates = self._algorithm.updates

    @torch.no_grad()
    def back(self) -> None:
        """Make everything what it was."""
        for block, copy in zip(self._algorithm.blocks(), self._copies, strict=True):
            block.copy_(copy)
        self._algorithm.updates = self._updates
