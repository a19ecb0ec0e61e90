"""The reports of a machine's processes: whoever hangs up and dies leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from shoal.api.worker import Pulse
from shoal.base.descendants import lives
from shoal.streams.transports.ray.messages import Arrived, Pulses
from shoal.streams.transports.ray.reports import Reports, report_to
from shoal.streams.transports.shm.heartbeat import HeartbeatBoard
from tests.launchers.processes import wait_for

PROCESS = """
import os, signal, sys
from pathlib import Path
from shoal.base.descendants import lead_group
from shoal.streams.transports.ray.reports import report_to

lead_group()
control = report_to(sys.argv[1], bytes.fromhex(sys.argv[2]), 0, 0)
control.close() if sys.argv[4] == "hangs up" else None
if (child := os.fork()) == 0:  # it has the connection, too
    os.close(1)
    signal.pause()
Path(sys.argv[3]).write_text(str(child))
print("ready", flush=True)
signal.pause()
"""


def test_a_process_that_is_being_built_keeps_the_time_it_has() -> None:
    """It begins before it reports, and whoever hears it late takes nothing back."""
    board, heard = HeartbeatBoard.create(1), []
    reports = Reports(board, heard.extend)
    try:
        board.place(0).begin(600, in_env=False)
        control = report_to(reports.address, reports.key, 0, 3)
        assert wait_for(lambda: len(heard) > 1, 10), "silent for half a second, which is told"
        assert heard[0] == Arrived(0, 3, os.getpid())
        (life, pulse) = heard[1].pulses[0]
        assert (life, pulse.allowed) == (3, 600)
        assert pulse.silent > 0
        control.close()
    finally:
        reports.close()
        board.close()


def test_a_process_that_is_built_is_told_of_whoever_was_silent_before() -> None:
    """Else it would count as starting for as long as all goes well."""
    board, heard = HeartbeatBoard.create(2), []
    reports = Reports(board, heard.extend)
    places, controls = [board.place(number) for number in (0, 1)], []

    def told(number: int) -> Pulse:
        pulses = next((news.pulses for news in reversed(heard) if isinstance(news, Pulses)), {})
        return pulses[number][1] if number in pulses else Pulse()

    def is_built() -> bool:
        for place in places:
            place.rest()
        return told(1).allowed == 0

    def is_being_built() -> bool:
        places[0].rest()
        places[1].begin(600, in_env=False)
        return told(1).allowed == 600 and told(0).silent < 0.5

    try:
        places[0].rest()
        controls += [report_to(reports.address, reports.key, number, 0) for number in (0, 1)]
        assert wait_for(lambda: told(0).silent > 0.5, 10)
        assert wait_for(is_being_built, 10), "all speak again, and one of them is being built"
        assert wait_for(is_built, 10)
    finally:
        for control in controls:
            control.close()
        reports.close()
        board.close()


def test_what_a_dead_process_has_started_is_killed_and_not_before(tmp_path: Path) -> None:
    board = HeartbeatBoard.create(2)
    reports = Reports(board, lambda batch: None)
    try:
        for how in ("hangs up", "stays"):
            written = tmp_path / how
            process = subprocess.Popen(
                [sys.executable, "-c", PROCESS, reports.address, reports.key.hex(), str(written), how],
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            child = int(written.read_text())
            time.sleep(0.7)  # longer than between two looks
            assert lives(process.pid)
            assert lives(child)
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            assert wait_for(lambda child=child: not lives(child), 10)  # type: ignore[misc]
    finally:
        reports.close()
        board.close()
