"""Optuna's study of a search: what trials scored goes in, what to try next and whom to prune comes out.

It is made anew from the journal of the population at each start, so that nothing has to be mended there after a crash. Its file,
`optuna.journal`, is for Optuna's dashboard; nobody else writes it.
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import Trial, TrialState, create_trial

from shoal.api.population import RangeConfig, TuneConfig
from shoal.base.seeding import derive_seed
from shoal.population.journal import Line
from shoal.population.space import to_unit
from shoal.population.state import Member, State

FILE = "optuna.journal"
STARTUP = 10
"""Trials at random before the sampler goes by scores."""


class Study:
    """One search. `steps`: how far a trial goes; `every`: from one score to the next."""

    def __init__(self, folder: Path, config: TuneConfig, seed: int, steps: int, every: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._config, self._seed = config, seed
        for path in (folder / FILE, folder / f"{FILE}.lock"):
            with suppress(FileNotFoundError):
                path.unlink()
        storage = JournalStorage(JournalFileBackend(str(folder / FILE)))
        self.study = optuna.create_study(
            storage=storage, study_name=folder.name, direction="maximize", pruner=_pruner(config, steps, every)
        )
        self._names = {
            key: f"logit({key})" if range_.logit is not None else key for key, range_ in config.space.items()
        }
        self._distributions = {self._names[key]: _distribution(range_) for key, range_ in config.space.items()}
        self._trials: dict[str, int] = {}
        """Member -> its trial."""
        self._pruned: dict[str, bool] = {}
        """Member -> whether it is to end, by its newest score when that was reported."""

    # ------------------------------------------------------------ what to try

    def propose(self, member: str) -> dict[str, Any]:
        """Settings for a new trial: by its number, the seed, and what is known so far."""
        number = len(self._trials)
        seed = derive_seed(self._seed, "tune", counter=number)
        self.study.sampler = (
            optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP)
            if self._config.sampler == "tpe"
            else optuna.samplers.RandomSampler(seed=seed)
        )
        trial = self.study.ask(self._distributions)
        self._trials[member] = trial._trial_id
        return {key: _value(self._config.space[key], trial.params[name]) for key, name in self._names.items()}

    # ------------------------------------------------------------ what is known

    def learn(self, member: Member) -> None:
        """Bring a trial up to what is known of its member."""
        values = member.facts["values"]
        if member.name not in self._trials:
            if any(not _inside(self._config.space[key], value) for key, value in values.items()):
                return  # the recipe itself lies elsewhere: it is trained, and the study does not know it
            params = {self._names[key]: _parameter(self._config.space[key], value) for key, value in values.items()}
            self.study.add_trial(
                create_trial(state=TrialState.RUNNING, params=params, distributions=self._distributions)
            )
            self._trials[member.name] = self.study.trials[-1]._trial_id
        trial = Trial(self.study, self._trials[member.name])
        known = self._frozen(member.name)
        if known.state != TrialState.RUNNING:
            return
        for score in member.scores:
            if score.steps not in known.intermediate_values:
                trial.report(score.mean, score.steps)
                self._pruned[member.name] = bool(trial.should_prune())
        if member.over:
            self._tell(trial, member)

    def _tell(self, trial: Trial, member: Member) -> None:
        if member.state == "ended" and member.score is not None:
            self.study.tell(trial, member.score.mean)
        else:
            self.study.tell(trial, state=TrialState.PRUNED if member.state == "pruned" else TrialState.FAIL)

    def prunes(self, member: Member) -> bool:
        """A trial is to end: others are better at as many steps."""
        return self._pruned.get(member.name, False)

    def recall(self, lines: list[Line]) -> None:
        """Learn all that a journal has, in the order in which it was known."""
        state = State()
        for line in lines:
            state.apply(line)
            member = state.members.get(line.get("member", ""))
            if member is not None and "trial" in member.facts:
                self.learn(member)

    def _frozen(self, member: str) -> optuna.trial.FrozenTrial:
        return next(trial for trial in self.study.trials if trial._trial_id == self._trials[member])

    def importances(self) -> dict[str, float]:
        """How much each setting decides, by the trials that came to their end; empty where they are too few to tell."""
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with suppress(ValueError, RuntimeError):
                evaluator = optuna.importance.PedAnovaImportanceEvaluator()
                return dict(optuna.importance.get_param_importances(self.study, evaluator=evaluator))
        return {}


def _pruner(config: TuneConfig, steps: int, every: int) -> optuna.pruners.BasePruner:
    if config.pruner == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=every, max_resource=steps, reduction_factor=3)
    if config.pruner == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=every, reduction_factor=3)
    if config.pruner == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=every)
    return optuna.pruners.NopPruner()


def _distribution(range_: RangeConfig) -> BaseDistribution:
    if range_.choice is not None:
        return CategoricalDistribution(list(range(len(range_.choice))))
    low, high = range_.bounds
    if range_.whole:
        return IntDistribution(math.ceil(low), math.floor(high), log=range_.log is not None)
    if range_.logit is not None:
        return FloatDistribution(_logit(low), _logit(high))
    return FloatDistribution(low, high, log=range_.log is not None)


def _parameter(range_: RangeConfig, value: Any) -> Any:
    """A value as Optuna has it."""
    if range_.choice is not None:
        return range_.choice.index(value)
    return _logit(value) if range_.logit is not None and not range_.whole else value


def _value(range_: RangeConfig, parameter: Any) -> Any:
    if range_.choice is not None:
        return range_.choice[parameter]
    if range_.logit is not None and not range_.whole:
        low, high = range_.bounds
        return min(max(1 / (1 + math.exp(-parameter)), low), high)
    return parameter


def _inside(range_: RangeConfig, value: Any) -> bool:
    if range_.choice is not None:
        return value in range_.choice
    low, high = range_.bounds
    return isinstance(value, int | float) and low <= value <= high and 0 <= to_unit(range_, value) <= 1


def _logit(value: float) -> float:
    return math.log(value / (1 - value))
