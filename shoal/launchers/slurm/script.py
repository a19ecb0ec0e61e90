"""A training job as a batch script: #SBATCH lines and settings from a `Job`, then `job.sh`, which is the same for all."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shoal.base.errors import InputError

BODY = Path(__file__).with_name("job.sh")
WARNING_SECONDS = 60
"""How long before the time limit the job is told: enough to save a checkpoint and to take Ray down."""
PATIENCE_SECONDS = 300
"""How long Ray may take to start, on a file system that many nodes read at once."""

_WORD = re.compile(r"[\w@%+=:,./\[\]-]+")


@dataclass(frozen=True)
class Part:
    """Equal nodes."""

    nodes: int
    cpus: int
    gpus: int = 0
    partition: str | None = None


@dataclass(frozen=True)
class Job:
    """Everything that decides the script."""

    recipe: str
    experiment: str
    trial: str
    overrides: tuple[str, ...]
    parts: tuple[Part, ...]
    """The first holds the Ray head and the training command; a second makes it a heterogeneous job."""
    name: str
    account: str | None = None
    time: str | None = None
    container: str | None = None
    """An image for Apptainer; None: the Python that submits."""

    @property
    def records(self) -> Path:
        """What this job leaves beside the run folder, seen from the folder it was submitted in."""
        return records_of(self.experiment, self.trial)


def records_of(experiment: str, trial: str, root: Path = Path("runs")) -> Path:
    """The script, the output and the job's number: apart from the run folder, which only the training makes."""
    return root / ".slurm" / experiment / trial


def write(job: Job) -> str:
    """The whole script."""
    lines = ["#!/bin/bash", *directives(job), "", *settings(job)]
    return "\n".join(lines) + "\n" + BODY.read_text() + train(job)


def directives(job: Job) -> Iterator[str]:
    """What Slurm reads. `B:` sends the warning to the script alone, not to Ray."""
    yield f"#SBATCH --job-name={_word('--name', job.name)}"
    yield f"#SBATCH --output={job.records / 'output.log'}"
    yield f"#SBATCH --signal=B:USR1@{WARNING_SECONDS} --requeue --open-mode=append"
    for number, part in enumerate(job.parts):
        if number:
            yield "#SBATCH hetjob"
        yield f"#SBATCH --nodes={part.nodes} --ntasks-per-node=1 --cpus-per-task={part.cpus}"
        if part.gpus:
            yield f"#SBATCH --gpus-per-node={part.gpus}"
        for option, value in (("partition", part.partition), ("account", job.account), ("time", job.time)):
            if value is not None:
                yield f"#SBATCH --{option}={_word('--' + option, value)}"


def settings(job: Job) -> Iterator[str]:
    """The variables that `job.sh` reads; arrays have one entry per part."""
    yield f"experiment={shlex.quote(job.experiment)} trial={shlex.quote(job.trial)} patience={PATIENCE_SECONDS}"
    for name, values in (("nodes", "nodes"), ("cpus", "cpus"), ("gpus", "gpus")):
        yield f"{name}=({' '.join(str(getattr(part, values)) for part in job.parts)})"
    yield f"python=({shlex.join(_python(job))})"
    yield f"submit={shlex.quote(shlex.join(['shoal', 'slurm', 'submit', job.recipe, '--trial', job.trial]))}"


def train(job: Job) -> str:
    """The one command that all the rest is for."""
    words = shlex.join(["train", job.recipe, "--trial", job.trial])
    overrides = "".join(" " + shlex.quote(word) for word in job.overrides)
    return f'run "${{python[@]}}" -m shoal.cli {words} {LAUNCHER} "${{resume[@]}}"{overrides}\n'


LAUNCHER = '--on ray --address "$address"'
"""How the training finds the cluster of its job."""


def _python(job: Job) -> list[str]:
    if job.container is None:
        return [sys.executable]
    gpus = ["--nv"] if any(part.gpus for part in job.parts) else []
    return ["apptainer", "exec", *gpus, "--bind", str(Path.cwd()), "--pwd", str(Path.cwd()), job.container, "python3"]


def _word(key: str, value: str) -> str:
    """A value that cannot break out of its #SBATCH line."""
    if not _WORD.fullmatch(value):
        raise InputError(
            f"{key} = {value!r} cannot stand in a batch script: use one word of letters, digits and @%+=:,./[]-"
        )
    return value
