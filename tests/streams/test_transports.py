"""Every transport through the shipped conformance suite."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.streams.transports.memory import MemoryMailbox, MemoryRing
from shoal.streams.transports.memory_tally import MemoryTally
from shoal.streams.transports.shm.mailbox import ShmMailbox
from shoal.streams.transports.shm.ring import ShmRing
from shoal.streams.transports.shm.tally import ShmTally
from shoal.testing.transport import check_mailbox, check_ring, check_tally


@pytest.mark.parametrize("ring", [MemoryRing, ShmRing])
def test_ring(ring: Any) -> None:
    check_ring(ring)


@pytest.mark.parametrize("mailbox", [MemoryMailbox, ShmMailbox])
def test_mailbox(mailbox: Any) -> None:
    check_mailbox(mailbox)


@pytest.mark.parametrize("tally", [MemoryTally, ShmTally])
def test_tally(tally: Any) -> None:
    check_tally(tally)
