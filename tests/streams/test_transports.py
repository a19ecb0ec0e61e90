"""Every transport through the shipped conformance suite."""

from shoal.streams.transports.memory import MemoryMailbox, MemoryRing
from shoal.testing.transport import check_mailbox, check_ring


def test_memory_ring() -> None:
    check_ring(MemoryRing)


def test_memory_mailbox() -> None:
    check_mailbox(MemoryMailbox)
