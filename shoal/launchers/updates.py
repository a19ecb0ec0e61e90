"""What trainers say of their updates, put in order: policy by policy, version by version, replica by replica.

Who is slower to speak, or learns in another process, must not decide which row of numbers tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from shoal.api.messages import Updated
from shoal.launchers.threads import joined


class Updates:
    """Updates that were heard of, and wait for all that belongs to them. Each policy has its own clock: none waits for another."""

    def __init__(self, policies: Iterable[str], replicas: int) -> None:
        self._replicas = replicas
        self._waiting: dict[str, dict[int, dict[int, Updated]]] = {policy: {} for policy in policies}
        """Policy -> version -> rank -> what was said."""

    def add(self, message: Updated) -> None:
        """A replica made a version."""
        self._waiting[message.policy].setdefault(message.version, {})[message.replica] = message

    def take(self, heard: Callable[[str, int], bool]) -> list[Updated]:
        """Those that are whole: every replica spoke, and so did the actors whose episodes are behind it: `heard`."""
        taken: list[Updated] = []
        for policy, waiting in self._waiting.items():
            for version in sorted(waiting):
                if len(waiting[version]) < self._replicas or not heard(policy, version):
                    break
                taken += self._give(waiting, version)
        return taken

    @property
    def due(self) -> bool:
        """There is one that was not taken yet."""
        return any(self._waiting.values())

    def rest(self) -> list[Updated]:
        """All that is left, at the end of a run."""
        return [
            given
            for waiting in self._waiting.values()
            for version in sorted(waiting)
            for given in self._give(waiting, version)
        ]

    def break_off(self) -> None:
        """The replicas died: nobody will say more of their versions. Without the word of the first there is nothing to tell."""
        for policy, waiting in self._waiting.items():
            known = {version: said for version, said in waiting.items() if 0 in said}
            for said in known.values():
                silent = replace(said[0], metrics={})
                said |= {rank: silent for rank in range(self._replicas) if rank not in said}
            self._waiting[policy] = known

    def _give(self, waiting: dict[int, dict[int, Updated]], version: int) -> list[Updated]:
        said = waiting.pop(version)
        return [joined([said[rank] for rank in sorted(said)])] if 0 in said else []
