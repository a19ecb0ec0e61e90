"""The folder of a population, `runs/<name>/`: its settings, its journal, and a run folder for each member."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from shoal.base.config import load_layers
from shoal.base.errors import InputError
from shoal.base.files import as_typed, check_name, make_folder, write_atomic
from shoal.monitoring.run_folder import DEFAULT_ROOT, POPULATION, RunFolder
from shoal.population.journal import Journal
from shoal.population.state import State


class PopulationFolder:
    """One population on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = Journal(path / "journal.jsonl")

    @classmethod
    def create(cls, root: Path, name: str) -> Self:
        """A new one. A folder in which single runs lie already stays theirs."""
        folder = cls(root / check_name("--name", name))
        if folder.exists:
            raise InputError(f"{as_typed(folder.path)} exists already: go on with --resume, or choose another --name")
        if folder.path.is_dir() and any(folder.path.iterdir()):
            raise InputError(f"{as_typed(folder.path)} holds runs of another experiment: choose another --name")
        try:
            make_folder(folder.path)
        except OSError as error:
            raise InputError(f"{as_typed(folder.path)} cannot be made: {error.strerror}") from None
        return folder

    @classmethod
    def open(cls, root: Path, name: str) -> Self:
        """One that is there, to go on with."""
        folder = cls(root / check_name("--name", name))
        if not folder.exists:
            raise InputError(f"there is no population in {as_typed(folder.path)}: start it without --resume")
        return folder

    @classmethod
    def find(cls, run: str, root: Path = DEFAULT_ROOT) -> Self | None:
        """The population that someone means, by its name or its folder; None: it is none."""
        return next((folder for path in (Path(run), root / run) if (folder := cls(path)).exists), None)

    @classmethod
    def around(cls, run: RunFolder) -> Self | None:
        """The population that a run is a member of; None: it is none's."""
        folder = cls(run.path.absolute().parent)
        return folder if folder.exists else None

    @property
    def name(self) -> str:
        """Of the population."""
        return self.path.resolve().name

    @property
    def settings(self) -> Path:
        """What all members share, and how they differ."""
        return self.path / POPULATION

    @property
    def exists(self) -> bool:
        """It was begun."""
        return self.settings.is_file()

    def read_settings(self, words: list[str]) -> dict[str, Any]:
        """As they were kept, with `words` on top."""
        return load_layers(self.settings, words, saved=True)

    def write_settings(self, values: dict[str, Any]) -> None:
        """Keep them: the folder alone must do to go on."""
        from omegaconf import OmegaConf

        write_atomic(self.settings, OmegaConf.to_yaml(OmegaConf.create(values)))

    def state(self) -> State:
        """As the journal has it, live or years later."""
        return State(self.journal.read())

    def members(self) -> list[RunFolder]:
        """The run folders of those that have begun."""
        folders = [RunFolder(self.path / name) for name in self.state().members]
        return [folder for folder in folders if folder.config.is_file()]
