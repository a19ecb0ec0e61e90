"""Population-based training (Jaderberg et al. 2017): all members train to the same steps, then the worst go on from the best.

A comparison is a function of scores, the population's seed and its number: made again after a crash, it decides the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.api.experiment import Experiment
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed, generator
from shoal.population import exploit, space
from shoal.population.pb2 import intervals, next_values
from shoal.population.settings import as_word
from shoal.population.state import Member, Score, State
from shoal.population.strategy import Decision
from shoal.population.turn import Turn

ALGORITHM = "algorithm."


class PopulationTraining:
    """The strategy. `recipe`: what the experiment says for the settings of the space; `live`: those of the algorithm that may
    change while a run goes on, which are read back from it."""

    def __init__(self, experiment: Experiment, recipe: dict[str, Any], live: set[str]) -> None:
        assert experiment.population is not None
        self._experiment, self._config, self._recipe, self._live = experiment, experiment.population, recipe, live
        if experiment.stop.steps is None:
            raise InputError(
                "population: stop.steps is not given: say how far members train, e.g. stop.steps=1_000_000"
            )
        self._steps: int = experiment.stop.steps

    # ------------------------------------------------------------ decisions

    def decide(self, state: State) -> list[Decision]:
        """Members to begin with; then, whenever all have come as far as they should, who copies from whom."""
        if missing := [number for number in range(self._config.members) if f"m{number}" not in state.members]:
            return [self._member(number) for number in missing]
        number = comparisons(state)
        until = self._until(number)
        living = [member for member in state.living() if member.state != "paused"]
        if until is None or not living or not all(m.state == "waiting" and m.steps >= until for m in living):
            return []
        # One line: who dies while it is written has decided nothing.
        return [
            {"kind": "compared", "number": number, "steps": until, "decisions": self._compare(state, living, number)}
        ]

    def _member(self, number: int) -> Decision:
        drawn = space.draw(self._config.space, generator(self._experiment.seed, "population/begin", number))
        values = drawn if self._config.begin == "sampled" else self._recipe
        reason = "drawn from the space" if self._config.begin == "sampled" else "as the recipe says"
        words = self._words(number, values)
        return {"kind": "member", "member": f"m{number}", "words": words, "values": values, "reason": reason}

    def _words(self, number: int, values: dict[str, Any]) -> list[str]:
        words = [as_word(key, value) for key, value in values.items() if value != self._recipe[key]]
        return [*words, f"seed={self._experiment.seed + number}"]

    def _compare(self, state: State, members: list[Member], number: int) -> list[Decision]:
        config = self._config
        known = {member.name: member for member in members}
        if config.exploit == "none":
            return self._changes(state, {name: name for name in known}, known, number) if self._explores else []
        scores = {member.name: member.score or Score(member.steps, -np.inf) for member in members}

        def random(member: str) -> np.random.Generator:
            return generator(self._experiment.seed, "population/exploit", known[member].number, number)

        drawn = (
            exploit.truncation(scores, config.share, random)
            if config.exploit == "truncation"
            else exploit.binary_tournament(scores, random)
        )
        pairs = {
            name: origin
            for name, origin in drawn.items()  # nobody takes over what is no checkpoint
            if known[origin].version and (not config.separate or exploit.separate(scores[name], scores[origin]))
        }
        copies = [
            {**self._copy(known[name], known[origin], scores[name], scores[origin]), "order": order}
            for order, (name, origin) in enumerate(pairs.items())
        ]
        return [*copies, *(self._changes(state, pairs, known, number) if self._explores else [])]

    def _copy(self, member: Member, origin: Member, ours: Score, theirs: Score) -> Decision:
        scores = [{"steps": each.steps, "mean": each.mean, "returns": each.returns} for each in origin.scores]
        reason = f"{ours.mean:,.2f} against {theirs.mean:,.2f} at {theirs.steps:,} steps"
        return {
            "kind": "copied", "member": member.name, "origin": origin.name, "version": origin.version, "steps": origin.steps,
            "scores": scores, "own": ours.mean, "best": theirs.mean, "reason": reason,
        }  # fmt: skip

    @property
    def _explores(self) -> bool:
        return self._config.explore != "none"

    def _changes(self, state: State, pairs: dict[str, str], known: dict[str, Member], number: int) -> list[Decision]:
        """New settings for each member that takes over those of another, or its own."""
        config = self._config
        made: list[Decision] = []
        seen = intervals(state.lines) if config.explore == "pb2" else []
        pending = [member.facts["values"] for name, member in known.items() if name not in pairs]
        for name, origin in pairs.items():
            random = generator(self._experiment.seed, "population/explore", known[name].number, number)
            if config.explore == "pb2":
                values, reason = next_values(config.space, seen, pending, number, random)
                pending.append(values)
            elif config.explore == "resample":
                values, reason = space.draw(config.space, random), "drawn anew"
            else:
                values = space.perturb(config.space, known[origin].facts["values"], config.sigma, random)
                reason = "explored" if name == origin else f"a step away from {origin}"
            made.append(self._change(known[name], known[origin], values, reason))
        return made

    def _change(self, member: Member, origin: Member, values: dict[str, Any], reason: str) -> Decision:
        changes = {key: [member.facts["values"][key], value] for key, value in values.items()}
        return {
            "kind": "changed", "member": member.name, "values": values, "changes": changes, "steps": origin.steps,
            "words": self._words(member.number, values), "reason": reason,
        }  # fmt: skip

    # ------------------------------------------------------------ turns

    def _until(self, number: int) -> int | None:
        """Steps of the comparison of that number; None: members train to their end."""
        steps = (number + 1) * self._config.interval
        return steps if steps < self._steps else None

    def turns(self, state: State) -> list[Turn]:
        """Of all that are not there yet: those that are furthest behind first."""
        number = comparisons(state)
        until, config = self._until(number), self._config
        due = [member for member in state.waiting() if until is None or member.steps < until]
        seed = derive_seed(self._experiment.seed, "population/score", counter=number)
        return [
            Turn(member.name, member.words, until, self._read_back(member), config.episodes, seed)
            for member in sorted(due, key=lambda member: (member.steps, member.number))
        ]

    def _read_back(self, member: Member) -> dict[str, Any]:
        """What its algorithm must say that it uses. A member that has not begun was built with it."""
        values = {key.removeprefix(ALGORITHM): value for key, value in member.facts["values"].items()}
        return {key: value for key, value in values.items() if key in self._live} if member.version else {}

    def over(self, state: State) -> str | None:
        """One has reached the goal, or all have come to their end."""
        for member in state.members.values():
            if member.state == "ended" and member.reason.startswith("stop.return"):
                return f"{member.name}: {member.reason}"
        return "all members have ended" if state.members and not state.living() else None

    def line(self, member: Member) -> str:
        """Its settings, as they are now."""
        return ", ".join(f"{key.rpartition('.')[2]} {_short(value)}" for key, value in member.facts["values"].items())


def comparisons(state: State) -> int:
    """That were made."""
    return sum(line["kind"] == "compared" for line in state.lines)


def ends_of_space(ranges: space.Space) -> list[list[str]]:
    """Words that lay both ends of every range over an experiment: what is wrong there shows before anything is trained."""
    return [[as_word(key, space.from_unit(range_, end)) for key, range_ in ranges.items()] for end in (0.0, 1.0)]


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
