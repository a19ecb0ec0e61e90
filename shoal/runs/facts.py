"""What a person is told of a run, out of its settings."""

from __future__ import annotations

from pathlib import Path

from shoal.api.experiment import ClusterConfig, Experiment
from shoal.base.config import Named
from shoal.base.files import as_typed
from shoal.monitoring.run_facts import Learning, RunFacts
from shoal.rollout.plans import algorithm_class


def run_facts(experiment: Experiment, folder: Path, *, here: bool = True) -> RunFacts:
    """By the settings alone: no environment is made, no algorithm built."""
    own = {
        name: _learning(policy.algorithm, f"policies.{name}.algorithm")
        for name, policy in experiment.policies.items()
        if policy.algorithm is not None
    }
    learning = _learning(experiment.algorithm, "algorithm")
    return RunFacts(experiment.name, as_typed(folder), experiment.stop, experiment.seed, learning, own, here=here)


def _learning(section: Named, at: str) -> Learning:
    return Learning(section.name, algorithm_class(section, at).key_metrics)


def unused_settings(experiment: Experiment, on: str) -> list[str]:
    """A line for what was asked for and is not had."""
    cluster = experiment.placement.cluster
    if on != "ray" and cluster != ClusterConfig():
        return [
            f"placement.cluster is ignored with --on {on}: only --on ray reserves resources; networks run on the CPU"
        ]
    kinds = ("actor", "policy", "trainer", *cluster.others)
    if on == "ray" and (gpus := [kind for kind in kinds if cluster.of(kind).gpus]):
        return [f"placement.cluster.{gpus[0]}.gpus is reserved and not used: networks run on the CPU"]
    return []
