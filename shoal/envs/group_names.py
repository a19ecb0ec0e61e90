"""What groups of agents are called, by the names of their agents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from gymnasium import Space


def agents_by_spaces(
    agents: Iterable[tuple[Any, Space[Any], Space[Any]]],
) -> list[tuple[list[Any], Space[Any], Space[Any]]]:
    """Agents with what they see and how they act -> those with equal spaces together, in the order of their first."""
    kinds: list[tuple[list[Any], Space[Any], Space[Any]]] = []
    for agent, seen, acts in agents:
        for members, known_seen, known_acts in kinds:
            if acts == known_acts and seen == known_seen:
                members.append(agent)
                break
        else:
            kinds.append(([agent], seen, acts))
    return kinds


def group_names(kinds: Iterable[Sequence[Any]]) -> list[str]:
    """The words that the names of a group's agents begin with; where groups would share a name, that of the first agent."""
    kinds = list(kinds)
    stems = [_stem([str(agent) for agent in agents]) for agents in kinds]
    count = Counter(stems)
    return [
        stem if count[stem] == 1 else _tidy(str(agents[0])) for stem, agents in zip(stems, kinds, strict=True)
    ]  # fmt: skip


def _stem(agents: list[str]) -> str:
    """`speaker` of `speaker_0`, `red` of `red_tank_0` and `red_jet_1`; `agents` where nothing is common."""
    words = [re.sub(r"[\W_]*\d+$", "", agent).split("_") for agent in agents]
    common = []
    for same in zip(*words, strict=False):
        if len(set(same)) > 1:
            break
        common.append(same[0])
    return _tidy("_".join(common)) or "agents"


def _tidy(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("_")
