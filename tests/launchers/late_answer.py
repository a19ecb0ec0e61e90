"""A worker that takes its time to say what it holds."""

from __future__ import annotations

import time

from shoal.api.messages import Message
from shoal.api.program import WorkerSpec
from shoal.api.worker import Worker
from shoal.base.tree import Tree
from shoal.workers.context import Context


class LateSpec(WorkerSpec):
    """One of them."""

    def build(self, context: Context) -> Late:
        return Late(self.name)


class Late(Worker):
    """Does nothing, and remembers nothing, slowly."""

    def __init__(self, name: str) -> None:
        self.name = name

    def poll(self, timeout: float) -> list[Message]:
        return []

    def state(self, round_: int) -> Tree | None:
        time.sleep(0.5)
        return {"nothing": round_}
