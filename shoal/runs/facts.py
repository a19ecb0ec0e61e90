"""What a person is told of a run, out of its settings."""

from __future__ import annotations

from pathlib import Path

from shoal.api.cluster import ClusterConfig
from shoal.api.experiment import Experiment, PlacementConfig
from shoal.base.arithmetic import HAS_TF32
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
    return [*_unused_resources(experiment, on), *_unused_precision(experiment.placement)]


def _unused_precision(placement: PlacementConfig) -> list[str]:
    devices = [placement.device, *([placement.policy_device] if placement.inference == "worker" else [])]
    if placement.precision != "tf32" or any(name.startswith(HAS_TF32) for name in devices):
        return []
    here = " and ".join(dict.fromkeys(devices))
    return [
        f"placement.precision = 'tf32' changes nothing on {here}: only CUDA devices have it; this run computes in fp32"
    ]


def _unused_resources(experiment: Experiment, on: str) -> list[str]:
    cluster = experiment.placement.cluster
    if on != "ray" and cluster != ClusterConfig():
        return [f"placement.cluster is ignored with --on {on}: only --on ray reserves resources"]
    kinds = ("actor", "policy", "trainer", *cluster.others)
    devices = {"trainer": experiment.placement.device, "policy": experiment.placement.policy_device}
    idle = [kind for kind in kinds if cluster.of(kind).gpus and devices.get(kind, CPU) == CPU]
    if on == "ray" and idle:
        return [f"placement.cluster.{idle[0]}.gpus is reserved and not used: its networks run on the CPU"]
    return []
