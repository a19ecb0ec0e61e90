"""Tuning: trials of settings that a study proposes, pruned at equal steps; the best are confirmed on seeds of their own."""

from __future__ import annotations

from typing import Any

from shoal.api.experiment import Experiment
from shoal.api.population import TuneConfig
from shoal.base.errors import InputError
from shoal.base.seeding import derive_seed
from shoal.population.settings import as_word
from shoal.population.state import Member, State
from shoal.population.strategy import Decision
from shoal.population.study import Study
from shoal.population.turn import Turn

RUNGS = 9
"""Scores of a trial that is not pruned, where nothing else is said."""


class Tuning:
    """The strategy. `recipe`: what the experiment says for the settings of the space; `parallel`: trials at once."""

    def __init__(self, experiment: Experiment, study: Study, recipe: dict[str, Any], parallel: int) -> None:
        assert experiment.tune is not None
        self._experiment, self._config, self._study = experiment, experiment.tune, study
        self._recipe, self._parallel = recipe, parallel
        self._steps, self._every = rungs(experiment)

    # ------------------------------------------------------------ decisions

    def decide(self, state: State) -> list[Decision]:
        """Whom to prune, what to try next, and in the end what to confirm."""
        trials = trials_of(state)
        for member in trials:
            self._study.learn(member)
        pruned = [self._prune(member, trials) for member in trials if self._due(member) and self._study.prunes(member)]
        if pruned:
            return pruned
        if len(trials) < self._config.trials:
            living = sum(not member.over and member.state != "paused" for member in trials)
            return [self._trial(len(trials))] if living < self._parallel else []
        if any(not member.over for member in trials):
            return []
        return [each for each in self._confirm(trials) if each["member"] not in state.members]

    def _due(self, member: Member) -> bool:
        """It waits for its next turn, behind one that has a score."""
        return member.state == "waiting" and bool(member.scores) and member.scores[-1].steps == member.steps

    def _prune(self, member: Member, trials: list[Member]) -> Decision:
        assert member.score is not None
        others = [s.mean for other in trials for s in other.scores if other is not member and s.steps == member.steps]
        best = f", the best of {len(others)} others {max(others):,.1f}" if others else ""
        reason = f"{member.score.mean:,.1f} at {member.steps:,} steps{best}"
        return {"kind": "pruned", "member": member.name, "steps": member.steps, "reason": reason}

    def _trial(self, number: int) -> Decision:
        name = f"t{number}"
        values = self._recipe if number == 0 else self._study.propose(name)
        reason = "the recipe itself" if number == 0 else f"proposed by {self._config.sampler}"
        words = [*self._words(values), f"seed={self._experiment.seed}"]
        return {"kind": "member", "member": name, "words": words, "values": values, "trial": number, "reason": reason}

    def _words(self, values: dict[str, Any]) -> list[str]:
        return [as_word(key, value) for key, value in values.items() if value != self._recipe[key]]

    def _confirm(self, trials: list[Member]) -> list[Decision]:
        made: list[Decision] = []
        for place, trial in enumerate(ranked(trials)[: self._config.top], 1):
            for number in range(1, self._config.seeds + 1):
                seed, values = self._experiment.seed + number, trial.facts["values"]
                made.append(
                    {
                        "kind": "member", "member": f"{trial.name}-seed-{seed}", "words": [*self._words(values), f"seed={seed}"],
                        "values": values, "confirms": trial.name, "reason": f"{trial.name} came {place}.",
                    }
                )  # fmt: skip
        return made

    # ------------------------------------------------------------ turns

    def turns(self, state: State) -> list[Turn]:
        """Trials from score to score, those that are ahead first; confirmations to their end."""
        found = []
        for member in sorted(state.waiting(), key=lambda member: (-member.steps, member.number)):
            until = (member.steps // self._every + 1) * self._every
            whole = "trial" not in member.facts or until >= self._steps
            seed = derive_seed(self._experiment.seed, "tune/score")
            found.append(Turn(member.name, member.words, None if whole else until, {}, self._config.episodes, seed))
        return found

    def over(self, state: State) -> str | None:
        """All trials have ended, and what was to be confirmed."""
        trials = trials_of(state)
        if len(trials) < self._config.trials or state.living() or not state.members:
            return None
        if not confirmations_of(state) and ranked(trials):
            return None
        pruned = sum(member.state == "pruned" for member in trials)
        return f"all {len(trials)} trials have ended, {pruned} early"

    def line(self, member: Member) -> str:
        """Its settings."""
        values = member.facts["values"].items()
        return ", ".join(f"{k.rpartition('.')[2]} {f'{v:.3g}' if isinstance(v, float) else v}" for k, v in values)


def rungs(experiment: Experiment) -> tuple[int, int]:
    """Steps of a trial, and from one score to the next."""
    steps, config = experiment.stop.steps, experiment.tune
    assert config is not None
    if steps is None:
        raise InputError("tune: stop.steps is not given: say how far a trial goes, e.g. stop.steps=100_000")
    return steps, interval(config, steps)


def interval(config: TuneConfig, steps: int) -> int:
    """Steps between two scores."""
    return max(1, steps // RUNGS) if config.every is None else int(str(config.every).split()[0])


def trials_of(state: State) -> list[Member]:
    """In their order."""
    return [member for member in state.members.values() if "trial" in member.facts]


def confirmations_of(state: State) -> list[Member]:
    """In their order."""
    return [member for member in state.members.values() if "confirms" in member.facts]


def ranked(trials: list[Member]) -> list[Member]:
    """Those that came to their end with a score, best first."""
    ended = [member for member in trials if member.state == "ended" and member.score is not None]
    return sorted(ended, key=lambda member: -(member.score.mean if member.score else 0.0))
