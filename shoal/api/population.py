"""Many runs as one: the settings of sweeps and of population-based training, and what a whole population may take."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from shoal.base.config import Cadence, Config, Count, Duration


class BudgetConfig(Config):
    """What all members together may take: whichever comes first ends the population."""

    steps: Count | None = Field(None, gt=0)
    """Environment steps of all members."""
    core_seconds: Duration | None = None
    """Processor time of all members."""
    seconds: Duration | None = None
    """Wall time, of all starts together."""


class SweepConfig(Config):
    """A grid of settings, each trained with several seeds. Read by `shoal sweep`."""

    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    """Setting -> its values: every combination is trained. Left out: the experiment as it is."""
    seeds: Count = Field(1, ge=1)
    """Of each combination: the experiment's `seed`, and those that follow."""
    budget: BudgetConfig = BudgetConfig()
    """What the whole sweep may take. Left out: until every run has ended."""


Bounds = Annotated[list[float], Field(min_length=2, max_length=2)]


class RangeConfig(Config):
    """Between which values a setting may lie, and on which scale it moves: one of the four."""

    log: Bounds | None = None
    """From, to: learning rates and other numbers above 0 whose size is not known."""
    logit: Bounds | None = None
    """From, to: numbers between 0 and 1 that matter most near the ends, such as discounts."""
    linear: Bounds | None = None
    """From, to: any other number."""
    choice: Annotated[list[Any], Field(min_length=2)] | None = None
    """One of these, in their order."""
    whole: bool = False
    """Only whole numbers."""

    @model_validator(mode="after")
    def _one_scale(self) -> Self:
        given = [name for name in ("log", "logit", "linear", "choice") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give one of log: [FROM, TO], logit: [FROM, TO], linear: [FROM, TO] or choice: [A, B]")
        if self.choice is not None:
            return self
        low, high = self.bounds
        if not low < high:
            raise ValueError(f"{given[0]} = [{low:g}, {high:g}]: write the smaller number first")
        if (self.log is not None and low <= 0) or (self.logit is not None and not 0 < low < high < 1):
            raise ValueError(f"{given[0]} = [{low:g}, {high:g}]: there is no such number on this scale; try linear")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """From, to; of a choice its places."""
        if self.choice is not None:
            return 0.0, float(len(self.choice) - 1)
        low, high = self.log or self.logit or self.linear or (0.0, 1.0)
        return low, high


class PopulationConfig(Config):
    """Population-based training: members that lag behind go on from those that lead, with settings a little different."""

    members: Count = Field(8, ge=2)
    """Runs that learn side by side; they take turns where slots are fewer."""
    every: Cadence = "50000 steps"
    """Environment steps of each member from one comparison to the next."""
    space: dict[str, RangeConfig] = Field(min_length=1)
    """Setting -> where it may lie: of the algorithm, of `env.kwargs`, of whatever the experiment has."""
    begin: Literal["sampled", "recipe"] = "sampled"
    """Members begin anywhere in the space, or all as the experiment says."""
    exploit: Literal["truncation", "binary tournament", "none"] = "truncation"
    """Who copies: the worst from any of the best, whoever is worse than one other that is drawn; none: random search."""
    share: float = Field(0.25, gt=0, le=0.5)
    """Of all members, those that are the worst and those that are the best, in truncation."""
    explore: Literal["perturb", "resample", "pb2", "none"] = "perturb"
    """A copy takes its donor's settings: a step away from them; or gets settings that are drawn anew, or that a bandit proposes by
    what each has gained so far (pb2, for numbers only); none: it keeps its own."""
    sigma: float = Field(0.1, gt=0, le=1)
    """Standard deviation of a step, as a part of the range on its scale."""
    episodes: Count = Field(0, ge=0)
    """Greedy episodes of each member that decide; 0: its training return does."""
    separate: bool = False
    """Copy only where the 95 % intervals of both scores do not overlap; needs `episodes`."""
    budget: BudgetConfig = BudgetConfig()
    """What the whole population may take. Left out: until `stop` ends it."""

    @model_validator(mode="after")
    def _in_steps(self) -> Self:
        if not str(self.every).endswith("steps"):
            raise ValueError(f"every = {self.every}: members are compared at equal steps; write '50_000 steps'")
        if self.separate and self.episodes < 2:
            raise ValueError("separate = true: a score needs episodes to have an interval; add episodes: 20")
        unordered = [key for key, range_ in self.space.items() if range_.choice is not None]
        if self.explore == "pb2" and unordered:
            raise ValueError(f"explore = pb2 proposes numbers, and {unordered[0]} is a choice: use perturb or resample")
        return self

    @property
    def interval(self) -> int:
        """`every`, as a number of steps."""
        return int(str(self.every).split()[0])


class TuneConfig(Config):
    """A search for better settings. Read by `shoal tune`."""

    space: dict[str, RangeConfig] = Field(min_length=1)
    """Setting -> where it may lie: of the algorithm, the model, `env.kwargs`, whatever the experiment has."""
    trials: Count = Field(50, ge=1)
    """Settings that are tried; the first are the recipe's own."""
    sampler: Literal["tpe", "random"] = "tpe"
    """What is tried next: by what earlier trials scored (tree-structured Parzen estimator), or anything."""
    pruner: Literal["hyperband", "halving", "median", "none"] = "hyperband"
    """Which trials end early: all but the best third, again and again (`halving` from the first score on, in `hyperband` from later
    ones too), those below the median of the others, or none."""
    every: Cadence | None = None
    """Environment steps between two scores of a trial. Left out: a ninth of `stop.steps`."""
    episodes: Count = Field(10, ge=1)
    """Greedy episodes of each score, the same for every trial."""
    top: Count = Field(3, ge=1)
    """So many of the best are confirmed."""
    seeds: Count = Field(5, ge=1)
    """On so many seeds that no trial has used; the best by their interquartile mean becomes `best.yaml`."""
    budget: BudgetConfig = BudgetConfig()
    """What the whole search may take. Left out: until all trials have ended."""

    @model_validator(mode="after")
    def _in_steps(self) -> Self:
        if self.every is not None and not str(self.every).endswith("steps"):
            raise ValueError(f"every = {self.every}: trials are compared at equal steps; write '10_000 steps'")
        return self
