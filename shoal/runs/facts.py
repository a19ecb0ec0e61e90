"""What a person is told of a run, out of its settings."""

from __future__ import annotations

from pathlib import Path

from shoal.api.cluster import ClusterConfig
from shoal.api.experiment import Experiment
from shoal.base.config import Named
from shoal.base.device import CPU
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
        return [f"placement.cluster is ignored with --on {on}: only --on ray reserves resources"]
    kinds = ("actor", "policy", "trainer", *cluster.others)
    devices = {"trainer": experiment.placement.device, "policy": experiment.placement.policy_device}
    idle = [kind for kind in kinds if cluster.of(kind).gpus and devices.get(kind, CPU) == CPU]
    if on == "ray" and idle:
        return [f"placement.cluster.{idle[0]}.gpus is reserved and not used: its networks run on the CPU"]
    return []
