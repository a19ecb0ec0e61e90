"""Agents that do not answer are ended: their processes die with them, and all of it begins again. No agent runs anybody's code.

An agent may be silent because its machine cannot be reached; so whoever is to end it first has to be heard from there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shoal.monitoring.logs import LOG
from shoal.streams.transports.ray.agent import MachineAgent
from shoal.streams.transports.ray.streams import AgentLine

LOOK = 0.5
"""Seconds between two looks at all agents."""
QUIET = 10.0
"""Seconds that an agent may take to answer."""
REACHED = 2.0
"""Seconds that it has once its machine is known to be reached."""


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@dataclass
class _Agent:
    """What is known of one."""

    pid: int = 0
    answer: Any = None
    """Its answer to the question of how it is, while that is due."""
    since: float = 0.0
    """When it was asked."""
    knock: Any = None
    """A task on its machine: once that is through, the machine is reached."""
    reached: float = 0.0
    """When that was seen; 0: not yet."""


class AgentWatch:
    """`agents` by the names of machines; the one of `home` is the controller itself."""

    def __init__(self, agents: Mapping[str, AgentLine], home: str, limit: float) -> None:
        self._agents, self._home, self._limit = agents, home, min(limit, QUIET)
        self._known: dict[str, _Agent] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="agents", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            for node, line in list(self._agents.items()):
                if node != self._home and not line.dead:
                    with contextlib.suppress(RayError):  # it is gone, or its machine: others see that
                        self._look(node, line, self._known.setdefault(line.key, _Agent()))

    def _look(self, node: str, line: AgentLine, agent: _Agent) -> None:
        now = time.monotonic()
        if agent.answer is None:
            agent.answer, agent.since, agent.knock, agent.reached = line.ask(MachineAgent.facts), now, None, 0.0
        elif _done(agent.answer):
            answer, agent.answer = agent.answer, None
            agent.pid = ray.get(answer).pid
        elif now - agent.since < self._limit or not agent.pid:
            return
        elif agent.knock is None:
            agent.knock = _on(node, os.getpid)
        elif not agent.reached:
            agent.reached = now if _done(agent.knock) else 0.0
        elif now - agent.reached > REACHED:
            LOG.warning("the agent %s has not answered for %.0f s and is ended", line.key, now - agent.since)
            agent.knock, agent.reached = _on(node, _kill, agent.pid), 0.0

    def close(self) -> None:
        """Nobody is ended any more."""
        self._over.set()
        self._thread.join(2)


def _done(ref: Any) -> bool:
    return bool(ray.wait([ref], timeout=0)[0])


def _on(node: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call it there, by Ray alone."""
    where = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=where)(_call).remote(function, args)


def _call(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    function(*args)
