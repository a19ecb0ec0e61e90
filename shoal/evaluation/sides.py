"""The sides of a game: which agents the evaluated policies play, and which the opponent, from one game to the next."""

from __future__ import annotations

from typing import NamedTuple

from shoal.api.program import Program


class Place(NamedTuple):
    """One agent."""

    policy: str
    """Who plays it in training."""
    own: bool
    """It is of the side that is evaluated; else the opponent plays in the place of that policy."""


Side = dict[str, tuple[Place, ...]]
"""Group -> its agents, in their order."""


def sides_of(program: Program) -> list[Side]:
    """All that the learning policies are to be evaluated on, each equally often.

    Where others play along, the learners are one side. Where all learn, each policy is one, against the others; and where there is
    one policy, each of its agents. Agents that training deals out anew are played in every order here.
    """
    cast = _cast(program)
    sides = []
    for own in _owners(program, cast):
        for turn in range(max(map(len, cast.values())) if program.experiment.shuffles else 1):
            side = {group: tuple(map(Place, names, own[group])) for group, names in cast.items()}
            sides.append({group: _rotated(places, turn) for group, places in side.items()})
    return [side for i, side in enumerate(sides) if side not in sides[:i]]


def both_ways(program: Program) -> list[Side]:
    """The same for two players who both play all of it: where sides differ, each is played by each. Agents that training deals out
    are one role in a group, that of the first who learns there."""
    learns = {spec.home: name for name, spec in reversed(program.policies.items()) if spec.learns}

    def place(each: Place, *, swapped: bool) -> Place:
        home = program.policies[each.policy].home
        role = learns.get(home, each.policy) if program.experiment.shuffles else each.policy
        return Place(role, each.own is not swapped)

    sides = [
        {group: tuple(place(each, swapped=swapped) for each in places) for group, places in side.items()}
        for swapped in (False, True)
        for side in sides_of(program)
    ]
    played = [side for side in sides if any(each.own for places in side.values() for each in places)]
    return [side for i, side in enumerate(played) if side not in played[:i]]


def opposed(sides: list[Side]) -> list[str]:
    """The policies in whose place an opponent plays."""
    return list(dict.fromkeys(p.policy for side in sides for places in side.values() for p in places if not p.own))


def _cast(program: Program) -> dict[str, list[str]]:
    """Group -> the policy of each agent; where they are dealt out, in any order."""
    if program.experiment.shuffles:
        cast: dict[str, list[str]] = {}
        for spec in program.policies.values():
            cast.setdefault(spec.home, []).extend([spec.name] * spec.count)
        return cast
    playing = [spec for spec in program.policies.values() if spec.count]
    by_place = {(spec.home, column): spec.name for spec in playing for column in spec.columns}
    groups = dict.fromkeys(spec.home for spec in playing)
    return {group: [name for (home, _), name in sorted(by_place.items()) if home == group] for group in groups}


def _owners(program: Program, cast: dict[str, list[str]]) -> list[dict[str, list[bool]]]:
    """For each side: group -> whether each agent is of it."""
    learners = program.learners
    if len(learners) < sum(1 for spec in program.policies.values() if spec.count):
        return [{group: [name in learners for name in names] for group, names in cast.items()}]
    if len(learners) > 1:
        return [{group: [name == one for name in names] for group, names in cast.items()} for one in learners]
    return [
        {group: [(group, column) == agent for column in range(len(names))] for group, names in cast.items()}
        for agent in ((group, column) for group, names in cast.items() for column in range(len(names)))
    ]


def _rotated(places: tuple[Place, ...], turn: int) -> tuple[Place, ...]:
    turn %= len(places)
    return places[turn:] + places[:turn]
