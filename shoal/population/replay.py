"""One branch of a population as a recipe: its settings over steps, to be trained from the beginning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.api.experiment import Experiment
from shoal.base.errors import InputError, ShoalError
from shoal.population.folder import PopulationFolder
from shoal.population.lineage import ancestry, schedules
from shoal.population.settings import as_word, member_experiment
from shoal.program.expand import check_settings


def write_replay(folder: PopulationFolder, member: str, path: Path) -> list[str]:
    """Write the recipe. Settings that cannot move over steps have their last value: those are returned, as lines to say."""
    found = schedules(ancestry(folder.journal.read(), member))
    words, notes = [f"seed={_seed(folder, member)}"], []
    for key, value in found.items():
        if isinstance(value, dict) and not _accepts(folder, as_word(key, value)):
            notes.append(f"{key} cannot move over steps: it is {value['end']}, its last value")
            value = value["end"]
        words.append(as_word(key, value))
    experiment = member_experiment(folder.settings, words)
    _write(path, experiment, f"{folder.name}/{member}: the settings of its branch, over steps.")
    return notes


def _accepts(folder: PopulationFolder, word: str) -> bool:
    try:
        check_settings(member_experiment(folder.settings, [word]))
    except InputError:
        return False
    return True


def _seed(folder: PopulationFolder, member: str) -> str:
    words = folder.state().members[member].words
    return next(word.partition("=")[2] for word in words if word.startswith("seed="))


def _write(path: Path, experiment: Experiment, title: str) -> None:
    from omegaconf import OmegaConf

    values: dict[str, Any] = experiment.model_dump(exclude_unset=True)
    values.pop("name", None)
    try:
        path.write_text(f"# {title}\n{OmegaConf.to_yaml(OmegaConf.create(values))}")
    except OSError as error:
        raise ShoalError(f"{path} cannot be written ({error.strerror})") from None
