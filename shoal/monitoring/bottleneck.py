"""What holds a run back: the shares of all workers' time in, one line for people out.

The busiest is the bottleneck: *sampling* (actors step the environment), *inference* (policies decide, in workers of their own or in
actors), *learning* (the trainer), *replay* (buffer workers, where there are any). The line names the setting that would move it.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.api.metric import Mean, Metric, merge_into
from shoal.monitoring.shares import by_kind, percent

ENOUGH = 1.0
"""Seconds of every kind of worker without which there is nothing to say."""
MUCH = 0.1
"""A share of waiting that overlap would be worth."""

KindShares = Mapping[str, Mapping[str, float]]
"""Kind of worker -> state -> share."""


class TimeAccount:
    """The shares of the whole run: takes the metrics of reports as they come, whatever else is in them."""

    def __init__(self) -> None:
        self._means: dict[str, dict[str, Metric]] = {}

    def add(self, metrics: Mapping[str, Metric]) -> None:
        """Take in one report's metrics."""
        for kind, states in by_kind(metrics).items():
            merge_into(self._means.setdefault(kind, {}), states)

    def shares(self) -> dict[str, dict[str, float]]:
        """Kind -> state -> share of the time until now."""
        return {kind: {state: mean.value for state, mean in states.items()} for kind, states in self._means.items()}

    @property
    def seconds(self) -> float:
        """Of the kind of worker that is known least."""
        weights = [
            max(mean.weight for mean in states.values() if isinstance(mean, Mean)) for states in self._means.values()
        ]
        return min(weights, default=0.0)

    def line(self, *, max_lag: int, one_process: bool = False) -> str | None:
        """`bottleneck: ...`, or None while there is too little to go by."""
        if self.seconds < ENOUGH:
            return None
        return bottleneck(self.shares(), max_lag=max_lag, one_process=one_process)


def bottleneck(shares: KindShares, *, max_lag: int, one_process: bool = False) -> str | None:
    """The line for these shares. None unless both actors and a trainer are known.

    `max_lag` is the run's; `one_process` says that all workers take turns in one thread, where only processes of their own help.
    """
    if not {"actor", "trainer"} <= shares.keys():
        return None
    loads = {
        "sampling": _share(shares, "actor", "worked"),
        "inference": _share(shares, "policy", "worked") if "policy" in shares else _share(shares, "actor", "inference"),
        "learning": _share(shares, "trainer", "worked"),
        "replay": _share(shares, "buffer", "worked"),
    }
    name = max(loads, key=lambda load: loads[load])
    waits = max_lag == 0 and _share(shares, "actor", "waited_slot") >= MUCH
    return f"bottleneck: {name} ({_evidence(name, shares)}): {_remedy(name, 'policy' in shares, waits, one_process)}"


def _evidence(name: str, shares: KindShares) -> str:
    starved = f"the trainer waited {_percent(shares, 'trainer', 'waited_input')} for experience"
    if name == "sampling":
        return f"actors stepped {_percent(shares, 'actor', 'worked')} of the time, {starved}"
    if name == "learning":
        idle = _percent(shares, "actor", "waited_slot")
        return f"the trainer learned {_percent(shares, 'trainer', 'worked')} of the time, actors waited {idle} for free slots"
    if name == "replay":
        return f"buffer workers kept and drew {_percent(shares, 'buffer', 'worked')} of the time, {starved}"
    if "policy" not in shares:
        return f"actors decided {_percent(shares, 'actor', 'inference')} of the time, {starved}"
    idle = _percent(shares, "actor", "waited_input")
    return (
        f"policy workers decided {_percent(shares, 'policy', 'worked')} of the time, actors waited {idle} for decisions"
    )


def _remedy(name: str, policy_workers: bool, waits: bool, one_process: bool) -> str:
    overlap = ", or placement.max_lag: 1, so that sampling and learning overlap" if waits else ""
    if one_process:
        help_ = {
            "sampling": "--on local with placement.actors: 2",
            "inference": "--on local with placement.actors: 2, or a smaller model",
            "replay": "--on local",
            "learning": "fewer algorithm.epochs or updates, or --on local with placement.trainers: 2",
        }
        return f"{help_[name]} would move it"
    if name == "sampling":
        return f"more placement.actors would move it{overlap or ', or env.vector: native, or more env.num_envs'}"
    if name == "learning":
        return f"fewer algorithm.epochs or updates would move it{overlap or ', or more placement.trainers'}"
    if name == "replay":
        return "more placement.buffers would move it"
    if policy_workers:
        return "more placement.policy_workers would move it, or placement.inference: inline"
    return "placement.inference: worker would move it, or more placement.actors"


def _share(shares: KindShares, kind: str, state: str) -> float:
    return shares.get(kind, {}).get(state, 0.0)


def _percent(shares: KindShares, kind: str, state: str) -> str:
    return percent(_share(shares, kind, state))
