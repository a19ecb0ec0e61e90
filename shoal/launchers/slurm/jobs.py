"""Jobs in Slurm's hands: submit, ask, cancel. What we know of them is in `runs/.slurm/`, what Slurm knows it tells."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from shoal.base.errors import InputError, ShoalError
from shoal.base.files import make_folder, write_atomic
from shoal.base.table import did_you_mean
from shoal.launchers.slurm.script import Job, records_of, write

TIMEOUT = 60.0
"""Seconds that a command of Slurm may take: a busy controller answers late."""
LIVE = {
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "COMPLETING",
    "SUSPENDED",
    "REQUEUED",
    "REQUEUE_HOLD",
    "STAGE_OUT",
    "SIGNALING",
}
_FIELDS = ("number", "state", "elapsed", "limit", "nodes", "where")


@dataclass(frozen=True)
class Record:
    """A job that was submitted here for a run."""

    path: Path
    number: int

    @property
    def run(self) -> str:
        """`experiment/trial`."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def output(self) -> Path:
        """What the job printed, through all its restarts."""
        return self.path / "output.log"


@dataclass(frozen=True)
class State:
    """What Slurm says of a job; `where` are its nodes, or why it waits."""

    state: str
    elapsed: str = "-"
    limit: str = "-"
    nodes: str = "-"
    where: str = "-"

    @property
    def live(self) -> bool:
        """It waits, runs, or is just ending."""
        return self.state in LIVE


# ---------------------------------------------------------------- what was submitted here


def records(root: Path = Path("runs")) -> list[Record]:
    """The last job of every run, in the order of submission."""
    paths = (root / ".slurm").glob("*/*/job-id")
    return sorted((Record(path.parent, int(path.read_text())) for path in paths), key=lambda record: record.number)


def find(word: str | None) -> Record:
    """The job someone means: its number, a run folder, `experiment/trial`, `experiment`; None for the newest."""
    known = records()
    if not known:
        raise InputError("no job was submitted from this folder: see `shoal slurm submit --help`")
    if word is None:
        return known[-1]
    run = "/".join(Path(word).parts[-2:]) if "/" in word else word
    fitting = [r for r in known if run in (str(r.number), r.run, r.path.parent.name)]
    if not fitting:
        raise InputError(
            f"no job of '{word}' was submitted from this folder; {did_you_mean(word, {r.run for r in known})}"
        )
    return fitting[-1]


# ---------------------------------------------------------------- what Slurm does


def submit(job: Job) -> Record:
    """Write the script beside the runs and hand it to Slurm."""
    folder = records_of(job.experiment, job.trial)
    _refuse_second(folder)
    try:
        make_folder(folder)
        write_atomic(folder / "job.sh", write(job))
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror}): submit from a folder that all nodes share"
        ) from None
    number = int(_slurm("sbatch", "--parsable", str(folder / "job.sh")).strip().partition(";")[0])
    write_atomic(folder / "job-id", f"{number}\n")
    return Record(folder, number)


def _refuse_second(folder: Path) -> None:
    if not (folder / "job-id").exists():
        return
    record = Record(folder, int((folder / "job-id").read_text()))
    if state_of(record).live:
        raise InputError(
            f"job {record.number} trains {record.run} already: wait for it, or `shoal slurm cancel {record.run}`"
        )


def states(known: Iterable[Record]) -> dict[int, State]:
    """Those jobs that Slurm still remembers."""
    lines = _slurm("squeue", "--me", "--noheader", "--states=all", "--format=%i|%T|%M|%l|%D|%R").splitlines()
    rows = [line.split("|", len(_FIELDS) - 1) for line in lines]
    wanted = {record.number for record in known}
    found: dict[int, State] = {}
    for number, *fields in rows:
        first = number.partition("+")[0]  # 17+0 and 17+1 are the parts of a heterogeneous job
        if first.isdigit() and int(first) in wanted:
            found.setdefault(int(first), State(*fields))
    return found


def state_of(record: Record) -> State:
    """From the queue, else from the accounting; a site may keep none."""
    found = states([record]).get(record.number)
    if found is not None:
        return found
    try:
        words = ("--noheader", "--allocations", "--parsable2", "--format=State,Elapsed,Timelimit,NNodes,NodeList")
        lines = _slurm("sacct", f"--jobs={record.number}", *words).splitlines()
    except ShoalError:
        lines = []
    return State(*lines[0].split("|", 4)) if lines else State("ENDED")


def cancel(record: Record, *, now: bool) -> str:
    """End a job: a running one saves a checkpoint first, unless it must end now. Says what was done."""
    state = state_of(record)
    if not state.live:
        raise ShoalError(f"job {record.number} of {record.run} is not running: {state.state}")
    if now or state.state != "RUNNING":
        _slurm("scancel", str(record.number))
        return "cancelled"
    _slurm("scancel", "--batch", "--signal=INT", str(record.number))
    return "told to save a checkpoint and end"


def _slurm(*words: str) -> str:
    """The output of a command of Slurm; what it complains of is our error."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT)
    except FileNotFoundError:
        raise InputError(
            f"{words[0]} is not on this machine: run this where Slurm's commands are, often a login node "
            "(`shoal slurm submit ... --dry-run` shows the script anywhere)"
        ) from None
    except subprocess.TimeoutExpired:
        raise ShoalError(
            f"{words[0]} gave no answer within {TIMEOUT:g} s: is Slurm's controller up? Try again"
        ) from None
    if done.returncode:
        lines = [line.removeprefix(f"{words[0]}: ").removeprefix("error: ") for line in done.stderr.splitlines()]
        raise InputError(f"{words[0]}: {'; '.join(lines) or f'exit code {done.returncode}'}")
    return done.stdout
