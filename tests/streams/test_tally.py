"""Sums between real processes: right to the bit under load, and after deaths at random moments never wrong and never stuck."""

from __future__ import annotations

import gc
import json
import os
import random
import threading
import time

import numpy as np
import pytest

from shoal.streams.primitives import AbandonedError
from shoal.streams.transports.shm import doorbell
from shoal.streams.transports.shm.tally import ShmTally
from tests.streams.shm_child import bring, child, part, result, whole

NBYTES = 8 * 20_000


@pytest.mark.parametrize("looking", [0.0, doorbell.LOOKING])
def test_sums_under_load(looking: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbell, "LOOKING", looking)  # 0: sleep as often as can be
    tally, rounds = ShmTally(3, 8 * 500), 1_000
    with child(bring, tally.handle, 0, rounds) as one, child(bring, tally.handle, 2, rounds) as two:
        began = time.monotonic()
        assert bring(tally.handle, 1, rounds) is None
        assert (result(one), result(two)) == (None, None)
    assert time.monotonic() - began < 10.0, "a lost wake-up sleeps until its timeout"


class Player(threading.Thread):
    """Rank 0, round after round, until it fails."""

    def __init__(self, tally: ShmTally) -> None:
        super().__init__(daemon=True)
        self._tally, self.rounds = tally, 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while True:
                total = self._tally.sum(0, part(0, self.rounds, NBYTES), 20.0)
                assert total.tobytes() == whole(self._tally, self.rounds), f"round {self.rounds}"
                self.rounds += 1
        except BaseException as error:
            self.error = error


def test_a_killed_participant_never_leaves_a_wrong_sum() -> None:
    tally = ShmTally(2, NBYTES)
    for _ in range(20):
        player = Player(tally)
        with child(bring, tally.handle, 1, 10**9) as other:
            player.start()
            until = time.monotonic() + 10
            while player.rounds < 3 and player.is_alive():
                assert time.monotonic() < until, "three rounds did not happen in 10 s"
                time.sleep(0.001)
            time.sleep(random.uniform(0.0, 0.01))  # any moment
            other.kill()
            other.wait(10)
        assert player.is_alive(), player.error
        tally.abandon()
        player.join(1.0)
        assert isinstance(player.error, AbandonedError), "whoever waits is told at once"
        tally.renew()


def test_handles_travel_as_json_and_nothing_is_left_behind() -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    tally = ShmTally(1, 64)
    other = ShmTally.attach(json.loads(json.dumps(tally.handle)))
    assert (other.sum(0, np.ones(8), 0.0) == 1).all()
    other.close()
    tally.close()
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ValueError, match="released"):
        tally.sum(0, np.ones(8), 0.0)
