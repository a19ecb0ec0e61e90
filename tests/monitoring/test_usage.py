from __future__ import annotations

import os
import subprocess
import sys
import time

from shoal.monitoring import usage
from shoal.monitoring.usage import UsageMeter


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_children_count_and_looks_are_rare() -> None:
    clock = Clock()
    meter = UsageMeter(clock)
    assert meter.usage() is None
    busy = "import time\nblock = bytearray(64 << 20)\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            assert set(usage._family(os.getpid())) >= {os.getpid(), child.pid}
            before = usage._ticks(child.pid)
            deadline = time.monotonic() + 20
            while usage._ticks(child.pid) < before + 10:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            clock.now = 2.0
            first = meter.usage()
        finally:
            child.kill()
    assert first is not None
    assert first.cores >= 0.04, "at least ten ticks in two seconds"
    assert first.nbytes > 64 << 20
    clock.now = 3.0
    assert meter.usage() is first, "not yet"


def test_a_process_that_ended_counts_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    assert (usage._ticks(child.pid), usage._nbytes(child.pid), list(usage._family(child.pid))) == (0, 0, [child.pid])
