"""A trainer's side of an agreement with nobody, and what workers say in one poll."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, TypeVar

from shoal.api.messages import Message
from shoal.api.worker import Heartbeat
from shoal.streams import names
from shoal.streams.primitives import Mailbox
from shoal.workers.context import Life
from shoal.workers.replica_sync import Allreduce

M = TypeVar("M", bound=Message)


class OneBox:
    """The streams of a trainer alone: where it publishes."""

    def __init__(self, policy: str, box: Mailbox) -> None:
        self._boxes = {names.version(policy): box}

    def mailbox(self, name: str) -> Mailbox:
        return self._boxes[name]


def alone(box: Mailbox, policy: str = "p") -> Allreduce:
    """Agreement among one."""
    context: Any = SimpleNamespace(
        streams=OneBox(policy, box), alone=False, supervised=False, life=Life(), heartbeat=Heartbeat()
    )
    plan: Any = SimpleNamespace(name=policy)
    return Allreduce(plan, 0, 1, context, None)


def only(said: list[Message], kind: type[M]) -> M:
    """The one message of a poll, which is of that kind."""
    (message,) = said
    assert type(message) is kind
    return message


def values(message: Any) -> dict[str, float]:
    """Its numbers."""
    return {name: metric.value for name, metric in message.metrics.items()}
