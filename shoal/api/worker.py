"""A Worker is one job with a `poll()`: take, work, give, and say what was done. Who calls it, in which process, is the launcher's
affair. A worker kind is one file: its spec (`shoal.api.program.WorkerSpec`), how it is built, its loop, its messages and orders.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

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
    """Where a process gives signs of life, from its own loop: a supervisor sees if it hangs, whatever it hangs in."""

    def begin(self, seconds: float, *, in_env: bool) -> None:
        """The workers are being built, which may take so long besides; `in_env`: environments among them."""
        return

    def beat(self) -> None:
        """The environments are stepped now: they have `env.timeout`."""
        return

    def between(self) -> None:
        """One copy of an environment came back, and another is stepped or reset: it has `env.timeout` of its own."""
        return

    def rest(self) -> None:
        """The process is in its own loop, at work or waiting: the next sign must come within `placement.hang`."""
        return


class Pulse(NamedTuple):
    """What the signs of life of a process say."""

    silent: float = 0.0
    """Seconds since the last; 0 before the first."""
    in_env: bool = False
    """That one was given on the way into its environments."""
    longest: float = 0.0
    """Seconds of the longest silence that ended well."""
    allowed: float = 0.0
    """Seconds that it may take besides: it is being built."""
