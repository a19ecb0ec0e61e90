"""Policies whose agents act at different paces may come to wait for each other's actors: who waits for whom, and what ends it.

An actor that has posted a round of policy A goes on when A's next version is out, which takes that round of every actor. If
actors fill the fragments of two policies in different orders, each may wait for a version that lacks a fragment of another that
waits. Then, and only then, fragments are posted as full as they are. Where runs are exact, what everyone has posted when nobody
can go on follows from the experiment alone, and so does what is posted next: bits stay equal under every launcher.
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.api.orders import Flush
from shoal.api.program import Program


@dataclass(frozen=True)
class Standing:
    """Where one policy stands."""

    version: int
    """Published."""
    posted: tuple[int, ...]
    """Producer -> the round that it is in, counted as versions are."""
    waiting: tuple[int, ...] = ()
    """Producer -> fragments posted that are not freed."""


def flushes(program: Program, standing: dict[str, Standing]) -> list[Flush]:
    """What to order so that somebody can go on; nothing, if somebody can. `standing`: policy by policy.

    Versions have to be looked up after the rounds: who waits for one that is not out even then has not moved meanwhile.
    """
    if not _all_wait(program, standing):
        return []
    policy = max(standing, key=lambda name: _have(program, standing[name]))  # of equals, the first
    found = standing[policy]
    late = [p for p, round_ in enumerate(found.posted) if round_ <= found.version]
    if not program.exact:
        late = [p for p, waiting in enumerate(found.waiting) if not waiting]
    return [Flush(producer, policy, found.posted[producer]) for producer in late]


def _have(program: Program, standing: Standing) -> int:
    """Producers whose fragment of the next round is there."""
    if program.exact:
        return sum(round_ > standing.version for round_ in standing.posted)
    return sum(standing.waiting)


def _all_wait(program: Program, standing: dict[str, Standing]) -> bool:
    """Every producer waits for some policy, and no policy has a whole round."""
    producers = range(program.producers)
    if any(_have(program, each) >= program.producers for each in standing.values()):
        return False
    return all(any(_is_blocked(program, each, p) for each in standing.values()) for p in producers)


def _is_blocked(program: Program, standing: Standing, producer: int) -> bool:
    if program.exact:
        return standing.posted[producer] - program.max_lag > standing.version
    return standing.waiting[producer] >= program.slots
