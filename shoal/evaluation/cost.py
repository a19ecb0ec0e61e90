"""What evaluation costs training: when it played and how steps were counted in, one line for people out."""

from __future__ import annotations

import time
from collections.abc import Callable

ENOUGH = 0.5
"""Seconds of either kind without which there is nothing to compare."""


class EvaluationCost:
    """Environment steps of training per second, while an evaluation was under way and otherwise.

    Steps are counted when an update is over. Those of an update that saw both kinds of time are shared out by their seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._playing = False
        self._since = clock()
        self._open = {True: 0.0, False: 0.0}
        self._seconds = {True: 0.0, False: 0.0}
        self._steps = {True: 0.0, False: 0.0}
        self._counted: int | None = None

    def switch(self, playing: bool) -> None:
        """From now on an evaluation is under way, or not."""
        now = self._clock()
        self._open[self._playing] += now - self._since
        self._since, self._playing = now, playing

    def count(self, steps: int) -> None:
        """An update is over, and so many steps are behind it. The first tells where counting begins: it waited for the start."""
        self.switch(self._playing)
        if self._counted is not None:
            whole = sum(self._open.values()) or 1.0
            for kind, seconds in self._open.items():
                self._seconds[kind] += seconds
                self._steps[kind] += (steps - self._counted) * seconds / whole
        self._counted, self._open = steps, {True: 0.0, False: 0.0}

    def rate(self, playing: bool) -> float | None:
        """Steps per second; None: too little is known."""
        seconds = self._seconds[playing]
        return self._steps[playing] / seconds if seconds >= ENOUGH else None

    def line(self, versions: int, seconds: float, passed_over: int) -> str:
        """`evaluation: 7 versions in 12.3 s; training made 14,200 steps/s meanwhile, 15,100 otherwise (6 % less)`."""
        words = f"evaluation: {versions} version{'s' * (versions != 1)} in {seconds:.1f} s"
        if passed_over:
            words += f", {passed_over} passed over"
        during, otherwise = self.rate(True), self.rate(False)
        if during is None:
            return words
        words += f"; training made {during:,.0f} steps/s meanwhile"
        if not otherwise:
            return words
        change = 100 * (during / otherwise - 1)
        return f"{words}, {otherwise:,.0f} otherwise ({abs(change):.0f} % {'less' if change < 0 else 'more'})"
