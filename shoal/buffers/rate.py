"""How far learning and inserting may be apart."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Rate:
    """Holds draws per row inserted to a number, within bounds both ways; without a clock, and without a process.

    Whoever keeps it inserts only while it `may_insert`, draws only while it `may_draw`, and counts both. One of the two is always
    allowed: neither side can wait for the other for ever.
    """

    per_row: float
    """Draws that each row is worth."""
    warmup: int
    """Rows that come before the first draw, and are worth none."""
    slack: float
    """Rows that either side may be ahead of the other."""
    rows: int = 0
    """Inserted until now."""
    draws: int = 0
    """Made until now."""

    @property
    def ahead(self) -> float:
        """Rows that inserting is ahead of learning; below 0, behind."""
        return self.rows - self.warmup - self.draws / self.per_row

    @property
    def may_insert(self) -> bool:
        """Actors are not too far ahead. A fragment is inserted whole, so they may get ahead by one more than `slack`."""
        return self.ahead <= self.slack

    @property
    def may_draw(self) -> bool:
        """It is warm, and the trainer is not too far ahead; it may get ahead by one draw more than `slack`."""
        return self.rows >= self.warmup and self.ahead >= -self.slack
