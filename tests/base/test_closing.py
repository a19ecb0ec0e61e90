from __future__ import annotations

import signal
import threading
import time

import pytest

from shoal.base.closing import time_limit


def test_a_time_limit_interrupts_and_leaves_timers_as_they_were() -> None:
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(True))
    rest = signal.setitimer(signal.ITIMER_REAL, 100)
    try:
        with pytest.raises(TimeoutError, match=r"^waiting took longer than 0.05 s$"), time_limit(0.05, "waiting"):
            threading.Event().wait(10)
        with time_limit(0.05, "waiting"):
            pass
        assert 90 < signal.getitimer(signal.ITIMER_REAL)[0] <= 100
        time.sleep(0.1)
        assert not rang
    finally:
        signal.setitimer(signal.ITIMER_REAL, *rest)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_take_their_time() -> None:
    ended = []

    def work() -> None:
        with time_limit(0.01, "sleeping"):
            time.sleep(0.05)
        ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended
