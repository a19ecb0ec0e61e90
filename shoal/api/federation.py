"""Settings of a federation: how children's rounds go, how they travel, and how the parent mixes them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from shoal.base.config import Config, Count, Duration, RoundCadence


class MixingConfig(Config):
    """How the parent's weights follow from its children's."""

    rule: Literal["mean", "median", "trimmed"] = "mean"
    """Over the children of a mix: their mean, or what outliers cannot move, place by place; those need a `quorum` of 3 or more."""
    trim: float = Field(0.2, ge=0, lt=0.5)
    """Of `trimmed`: the part that is left out at either end; of three children or more at least one."""
    weigh: Literal["samples", "equal"] = "samples"
    """Children count by the environment steps of their rounds, or all alike."""
    lr: float = Field(1.0, gt=0, le=10)
    """How far the parent goes along the mean delta: 1 goes to the mean. A4C's beta, what the parent keeps of its own, is 1 - lr."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """Nesterov's, of the parent (DiLoCo). With a quorum that waits for nobody it needs a `delay`."""
    delay: Count = Field(1, ge=1)
    """Mixes from one use of the momentum to the next: asynchronously about as many as there are children."""
    staleness: float = Field(0.5, ge=0, le=10)
    """A contribution that is s versions old counts (1 + s) ** -staleness."""
    clip: float | None = Field(None, gt=0)
    """Deltas longer than so many times the usual are shortened to that. Left out: they are taken as they are."""


class AcceptanceConfig(Config):
    """Evaluate before accepting: a child's weights that score significantly worse than the parent's are set aside."""

    episodes: Count = Field(20, ge=4)
    """Greedy ones of each, on the same seeds."""
    sigmas: float = Field(2.0, gt=0)
    """How many standard errors worse is too much."""


class FederationConfig(Config):
    """A parent and its children: read by `shoal parent` and `shoal child`."""

    every: RoundCadence = "20 updates"
    """A child's round: so many updates, environment steps, episodes, or so much time."""
    encoding: Literal["fp32", "fp16", "int8", "top_k"] = "fp32"
    """How parameters travel, both ways; all but fp32 lose something, which is made up for in later rounds."""
    share: float = Field(0.6, gt=0, le=1)
    """Of `top_k`: the part of the values that travels, with a bit each."""
    alpha: float = Field(1.0, gt=0, le=1)
    """How much of the parent's weights a child takes: 1 goes to them, less stays nearer to its own."""
    quorum: Annotated[Count, Field(ge=1)] | Literal["all"] = 1
    """Children whose rounds make a mix: 1 waits for nobody (asynchronous), `all` for everyone who is connected (synchronous)."""
    patience: Duration = Field(60.0, gt=0)
    """The longest wait: of a mix for a quorum, of a child for weights. Then it goes on with what there is."""
    mixing: MixingConfig = MixingConfig()
    """How contributions become weights."""
    accept: AcceptanceConfig | None = None
    """Evaluate before accepting. Left out: what is finite and well formed is taken."""
    strikes: Count = Field(3, ge=1)
    """Malformed contributions, or twice as many in a row that were set aside while others' were taken, until a child has to go."""

    @model_validator(mode="after")
    def _fit(self) -> Self:
        together = self.quorum == "all" or self.quorum >= 3
        if self.mixing.rule != "mean" and not together:
            raise ValueError(f"mixing.rule = '{self.mixing.rule}' compares children: set quorum = 3 or more, or all")
        if self.mixing.momentum and self.quorum != "all" and self.mixing.delay == 1:
            raise ValueError(
                "mixing.momentum without quorum = all misleads (arXiv 2401.09135): set mixing.delay, or momentum = 0"
            )
        return self

    @property
    def waits(self) -> bool:
        """Children wait for the weights that come of a round."""
        return self.quorum == "all"
