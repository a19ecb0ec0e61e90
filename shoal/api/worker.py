"""A Worker is one job with a `poll()`: take, work, give, and say what was done. Who calls it, in which process, is the launcher's
affair. A worker kind is one file: its spec (`shoal.api.program.WorkerSpec`), how it is built, its loop, its messages and orders.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from shoal.api.messages import Message
from shoal.api.orders import Order
from shoal.base.tree import Tree


class Worker(ABC):
    """One job. No signals, no callbacks, no threads: everything it does happens inside `poll` and `handle`."""

    name: str

    @abstractmethod
    def poll(self, timeout: float) -> list[Message]:
        """Work on what is there, waiting at most `timeout` seconds for it. Empty: there was nothing to do."""

    def handle(self, order: Order) -> list[Message]:
        """Obey, between two polls. An order that does not concern it is passed over."""
        return []

    def state(self, round_: int) -> Tree | None:
        """What a checkpoint keeps of it: arrays, numbers and words. None: nothing, it begins anew.

        `round_`: the round that follows on the versions that are saved.
        """
        return None

    def restore(self, state: Tree) -> None:
        """Go on from `state`. Before the first poll."""
        return

    def close(self) -> None:
        """Free what the worker holds."""
        return


class Heartbeat:
    """Who is told that a worker is inside its environments, and that it is not: a supervisor sees if it hangs there."""

    def begin(self, seconds: float) -> None:
        """The environments are being made, which may take so long besides."""
        return

    def beat(self) -> None:
        """The environments are stepped now."""
        return

    def rest(self) -> None:
        """They are left alone."""
        return
