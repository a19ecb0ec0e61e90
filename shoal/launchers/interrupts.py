"""Signals set a flag that loops read. The first asks for an orderly end; the second ends at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While entered, once or inside itself, SIGINT, SIGTERM and SIGHUP are noted in `caught`. Outside the main thread it catches
    nothing, and a SIGHUP that is ignored, as by `nohup`, stays so. When a terminal closes, shell and kernel may both send one:
    after the first, others mean nothing, also while the run is being saved."""

    def __init__(self) -> None:
        self.caught: str | None = None
        self._before: dict[int, Any] = {}
        self._depth = 0

    def __enter__(self) -> Interrupts:
        self._depth += 1
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            heeded = [n for n in SIGNALS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._note) for number in heeded}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            for number, handler in self._before.items():
                closed = number == signal.SIGHUP and self.caught == "SIGHUP"
                signal.signal(number, signal.SIG_IGN if closed else handler)
            self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.caught is None:
            self.caught = signal.Signals(number).name
        elif number != signal.SIGHUP:
            raise KeyboardInterrupt
