"""The settings of a population and of its members: one file, and words on top of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shoal.algorithms.settings import live_settings
from shoal.api.experiment import Experiment
from shoal.base.config import load_layers
from shoal.rollout.plans import algorithm_class

SECTIONS = ("population", "sweep", "tune")
"""What makes many runs of an experiment, and is no setting of one."""


def member_experiment(path: Path, words: list[str]) -> Experiment:
    """The settings of one member: those of the population with `words` on top. At its port the population is served alone."""
    found = one_run(load_layers(path, words, saved=True))
    if (own := found.log.prometheus) is None:
        return found
    free = found.log.model_copy(update={"prometheus": own.model_copy(update={"port": 0})})
    return found.model_copy(update={"log": free})


def one_run(values: dict[str, Any]) -> Experiment:
    """The settings of a population without what makes many runs of them."""
    return Experiment.parse({key: value for key, value in values.items() if key not in SECTIONS})


def settings_to_send(path: Path) -> bytes:
    """The settings of a population for another machine: what is served to Prometheus is served at home."""
    from omegaconf import OmegaConf

    values = load_layers(path, [], saved=True)
    log = {key: value for key, value in (values.get("log") or {}).items() if key != "prometheus"}
    return OmegaConf.to_yaml(OmegaConf.create({**values, "log": log})).encode()


def as_word(key: str, value: Any) -> str:
    """`key=value`, as it is read back."""
    from omegaconf import OmegaConf

    if isinstance(value, list | dict):
        import json

        return f"{key}={json.dumps(value)}"
    text = OmegaConf.to_yaml(OmegaConf.create({"value": value})).removeprefix("value:").strip()
    return f"{key}={text}"


def settings_of(experiment: Experiment, keys: Iterable[str]) -> dict[str, Any]:
    """What an experiment says for dotted keys, its algorithm's defaults included; None: nothing."""
    config = algorithm_class(experiment.algorithm, "algorithm").Config.parse(experiment.algorithm.rest, at="algorithm")
    tree = {**experiment.model_dump(), "algorithm": config.model_dump()}
    found = {}
    for key in keys:
        below: Any = tree
        for part in key.split("."):
            below = below.get(part) if isinstance(below, dict) else None
        found[key] = below
    return found


def live_keys(experiment: Experiment) -> set[str]:
    """Settings of its algorithm that may change while a run goes on."""
    config = algorithm_class(experiment.algorithm, "algorithm").Config.parse(experiment.algorithm.rest, at="algorithm")
    return set(live_settings(config))
